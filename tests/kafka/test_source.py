"""Topics as streams: exact against DuckDB, whatever happens to the topic, and clear words where it cannot be."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from millstream.errors import PipelineFailed, ScriptError
from millstream.lab.workloads.broker import Broker
from millstream.pipeline import Pipeline
from topics import SELECT, START, WINDOWS, expected, given, queries, rows, stream, values

Make = Callable[..., Pipeline]


def two(broker: Broker, name: str, partitions: int = 3) -> tuple[str, str]:
    """Two new topics."""
    topics = (f"{name}-a", f"{name}-b")
    for topic in topics:
        broker.create(topic, partitions)
    return topics


def test_json_values_are_joined_exactly_and_what_does_not_parse_is_late(
    broker: Broker, pipeline: Make, tmp_path: Path
) -> None:
    a, b = two(broker, "exact")
    left, right = rows(0), rows(0, count=300)
    broker.produce(a, values(left))
    broker.produce(b, values(right))
    broker.produce(a, [b"{not json", None, b'{"k": "one", "n": 1, "ts": "2024-05-31"}', b'{"k": 1}'], key=b"bad")
    columns = (
        ", kafka_key STRING, kafka_topic STRING, kafka_partition INT, kafka_offset BIGINT, kafka_timestamp TIMESTAMP"
    )
    found = pipeline(stream("A", broker, a, columns=columns) + stream("B", broker, b) + queries())
    found.query("beside", f"{SELECT.replace('SELECT', 'SELECT A.kafka_partition, A.kafka_offset,')} WINDOW 3 SECONDS")
    found.drain()
    for name, seconds in WINDOWS.items():
        assert given(found.results(name)) == expected(left, right, seconds)
    by_place = {(one["partition"], one["offset"]): one["value"] for one in broker.records(a)}
    for row in found.results("beside").to_pylist():
        assert f'"n": {row["a"]},'.encode() in by_place[row["kafka_partition"], row["kafka_offset"]]
    late = ds.dataset(tmp_path / "state/late/A").to_table().to_pylist()
    assert sorted((row["_reason"], row["_text"]) for row in late) == [
        ("does not parse", "(no value)"),
        ("does not parse", '{"k": "one", "n": 1, "ts": "2024-05-31"}'),
        ("does not parse", "{not json"),
        ("null time", None),
    ]
    bad = {(one["partition"], one["offset"]) for one in broker.records(a) if one["key"] == b"bad"}
    assert {(row["kafka_partition"], row["kafka_offset"]) for row in late} == bad
    assert {(row["kafka_key"], row["kafka_topic"]) for row in late} == {("bad", a)}
    assert all(row["kafka_timestamp"].year > 2024 for row in late)


def test_numbers_since_1970_are_times(broker: Broker, pipeline: Make) -> None:
    a, b = two(broker, "epoch")
    at = int(START.timestamp()) - time.timezone
    broker.produce(a, [b'{"k": 1, "n": 1, "ts": %d}' % (at * 1_000 + 250)])
    broker.produce(b, [b'{"k": 1, "n": 2, "ts": %d.250001}' % at, b'{"k": 1, "n": 3, "ts": 1e25}'])
    script = stream("A", broker, a, ", epoch = 'milliseconds'") + stream("B", broker, b, ", epoch = 'Seconds'")
    found = pipeline(f"{script} CREATE QUERY q AS {SELECT.replace('A.ts AS at', 'B.ts AS at')} WINDOW 1 SECOND;")
    found.drain()
    (row,) = found.results("q").to_pylist()
    assert row["at"].replace(tzinfo=None) == START.replace(microsecond=250_001)


def test_new_partitions_are_read(broker: Broker, pipeline: Make) -> None:
    a, b = two(broker, "partitions", partitions=1)
    script = stream("A", broker, a) + stream("B", broker, b) + queries()
    left, right = rows(0), rows(0)
    broker.produce(a, values(left))
    broker.produce(b, values(right))
    pipeline(script).drain()
    broker.add_partitions(a, 4)
    left += rows(1)
    broker.produce(a, values(rows(1)))
    assert {one["partition"] for one in broker.records(a)} > {0}
    found = pipeline(script)
    found.drain()
    assert given(found.results("wide")) == expected(left, right, WINDOWS["wide"])


def test_streams_in_another_order_read_their_own_offsets(broker: Broker, pipeline: Make) -> None:
    a, b = two(broker, "order", partitions=1)
    declared = [stream(name, broker, topic, ", failOnDataLoss = 'false'") for name, topic in (("A", a), ("B", b))]
    left, right = rows(0, count=300), rows(0, count=50)
    broker.produce(a, values(left))
    broker.produce(b, values(right))
    pipeline("".join(declared) + queries()).drain()
    broker.produce(a, values(rows(1, count=20)))
    broker.produce(b, values(rows(1, count=20)))
    found = pipeline("".join(reversed(declared)) + queries())
    found.drain()
    all_left, all_right = left + rows(1, count=20), right + rows(1, count=20)
    assert given(found.results("wide")) == expected(all_left, all_right, WINDOWS["wide"])


def test_expired_offsets_are_named_and_can_be_left_out(broker: Broker, pipeline: Make) -> None:
    a, b = two(broker, "expired", partitions=1)
    script = stream("A", broker, a) + stream("B", broker, b) + queries()
    left = rows(0, count=100)
    broker.produce(a, values(left))
    broker.produce(b, values(left))
    pipeline(script).drain()
    broker.produce(a, values(rows(1, count=100)))
    broker.expire(a, 0, 150)
    with pytest.raises(PipelineFailed) as error:
        pipeline(script).drain()
    said = str(error.value)
    assert f"{a}" in said
    assert "deleted" in said
    assert "failOnDataLoss = 'false'" in said
    assert "\n" not in said
    found = pipeline(script.replace("'earliest'", "'earliest', failOnDataLoss = 'false'"))
    found.drain()
    assert given(found.results("wide")) == expected(left + rows(1, count=100)[50:], left, WINDOWS["wide"])


@pytest.mark.parametrize("wrong", ["address", "topic"])
def test_a_wrong_address_or_topic_is_named_in_seconds(broker: Broker, pipeline: Make, wrong: str) -> None:
    a, b = two(broker, f"check-{wrong}")
    declared = stream("A", broker, a) + stream("B", broker, b) + queries()
    if wrong == "address":
        said = r"stream B: no answer from 127.0.0.1:1 .*Correct the address"
        script = stream("A", broker, a) + stream("B", broker, b).replace(broker.address, "127.0.0.1:1") + queries()
    else:
        said = f"stream B: no topic '{b}x' at {broker.address}.*Did you mean \"{b}\""
        script = declared.replace(f"'{b}'", f"'{b}x'")
    began = time.monotonic()
    with pytest.raises(ScriptError, match=said):
        pipeline(script).drain()
    assert time.monotonic() - began < 20
