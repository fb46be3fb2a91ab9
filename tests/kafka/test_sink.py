"""Topics as sinks: messages with a key and with headers to know them by, and a broker that is away for a while."""

from __future__ import annotations

import json
import queue
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from millstream.lab.workloads.broker import Broker
from millstream.pipeline import Pipeline
from topics import SELECT, WINDOWS, expected, queries, rows, stream, values

Make = Callable[..., Pipeline]


def once(records: list[Any], query: str) -> Counter[tuple[Any, ...]]:
    """The rows of a query, each message once: by its headers."""
    known = {
        (one["headers"]["batch"], one["headers"]["row"]): json.loads(one["value"])
        for one in records
        if one["headers"]["query"] == query
    }
    return Counter(
        (row["a"], row["b"], datetime.fromisoformat(row["at"]).replace(tzinfo=None)) for row in known.values()
    )


def test_messages_have_a_key_and_headers(broker: Broker, pipeline: Make) -> None:
    for topic in ("keys-a", "keys-b", "keys-out"):
        broker.create(topic, 3)
    both = rows(0)
    for topic in ("keys-a", "keys-b"):
        broker.produce(topic, values(both))
    to = f"format = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', topic = 'keys-out'"
    script = stream("A", broker, "keys-a") + stream("B", broker, "keys-b") + queries(f"{to}, key = 'k'")
    script += f"CREATE QUERY plain WITH ({to}) AS {SELECT} WINDOW 1 SECOND;"
    script += f"CREATE QUERY pair WITH ({to}, key = 'k, a') AS {SELECT} WINDOW 1 SECOND;"
    script += f"CREATE QUERY own WITH ({to}) AS SELECT CAST(A.n AS STRING) AS value, 'x' AS key FROM A, B "
    script += "WHERE A.k = B.k WINDOW 1 SECOND;"
    told: list[str] = []
    found = pipeline(script, tell=told.append)
    found.drain()
    records = broker.records("keys-out")
    by_query: dict[str, list[Any]] = {}
    for one in records:
        by_query.setdefault(one["headers"]["query"], []).append(one)
    for name, seconds in {**WINDOWS, "plain": 1, "pair": 1}.items():
        assert once(by_query[name], name) == expected(both, both, seconds)
        assert len(by_query[name]) == expected(both, both, seconds).total(), "no message came twice"
    assert all(one["key"] == str(json.loads(one["value"])["k"]).encode() for one in by_query["wide"])
    assert {one["partition"] for one in by_query["wide"]} == {0, 1, 2}
    assert {one["key"] for one in by_query["plain"]} == {None}
    first = json.loads(by_query["pair"][0]["value"])
    assert json.loads(by_query["pair"][0]["key"]) == {"k": first["k"], "a": first["a"]}
    assert {one["key"] for one in by_query["own"]} == {b"x"}
    assert by_query["own"][0]["value"].isdigit()
    assert any("a kafka sink is not idempotent" in one for one in told)


def test_a_broker_that_is_away_for_a_while(broker: Broker, pipeline: Make) -> None:
    for topic in ("away-a", "away-b", "away-out"):
        broker.create(topic, 2)
    left, right = rows(0, count=100), rows(0, count=100)
    broker.produce("away-a", values(left))
    broker.produce("away-b", values(right))
    done: queue.Queue[Any] = queue.Queue()
    to = f"format = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', topic = 'away-out', retry = 'forever'"
    script = stream("A", broker, "away-a") + stream("B", broker, "away-b") + queries(to)
    found = pipeline(script, on_batch=done.put)
    found.start()
    seen = 0
    while seen < 200:
        seen += sum(done.get(timeout=120).rows_in.values())
    broker.kill()
    assert found.wait(5) is False, "the pipeline waits for it"
    broker.start()
    left, right = left + rows(1, count=100), right + rows(1, count=100)
    broker.produce("away-a", values(rows(1, count=100)))
    broker.produce("away-b", values(rows(1, count=100)))
    while seen < 400:
        seen += sum(done.get(timeout=120).rows_in.values())
    found.drain()
    for name, seconds in WINDOWS.items():
        assert once(broker.records("away-out"), name) == expected(left, right, seconds)
