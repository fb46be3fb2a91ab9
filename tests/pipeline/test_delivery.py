"""Sinks that are away, that refuse rows, and runs that end while rows are handed over."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from begun import FROM_FILES, SELECT
from millstream.compile import compile_script
from millstream.errors import QueryFailed, ScriptError
from millstream.pipeline.delivery import Delivery
from millstream.pipeline.preflight import wrong_ends
from millstream.pipeline.session import make_session
from millstream.pipeline.sinks import External, Sinks
from two_streams import BATCHES, PAIR, STREAMS, expected, same

AT = datetime(2024, 5, 31, 12, 0, 0, 123456, tzinfo=UTC)


class Outbox:
    """An outbox with rows that wait, as a run leaves them behind."""

    def __init__(self, place: Path) -> None:
        self.place, self.told = place, queue.SimpleQueue[str]()
        self.delivery = Delivery(make_session("test"), str(place), self.told.put)

    def put(self, query: str, batch: int, slot: int, table: pa.Table | bytes) -> Path:
        path = self.place / "outbox" / query / f"{query}-0123abcd-{batch:08}-{slot:03}-0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(table) if isinstance(table, bytes) else pq.write_table(table, path)
        return path

    def run(self, sinks: dict[str, External]) -> None:
        known = Sinks(sinks, {})
        self.delivery.take_up(known, dict.fromkeys(sinks, 1))
        self.delivery.run(known, "app")

    def left(self) -> list[str]:
        return sorted(path.name for path in self.place.glob("outbox/*/*"))


def sink(place: Path, kind: str = "json", **options: str) -> External:
    return External(kind, tuple(sorted({"path": str(place / "out"), **options}.items())))


def lines(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(place.glob("out/*/*.json")) for line in path.read_text().splitlines()]


def test_microseconds_and_null_columns_are_kept(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    table = pa.table({"at": [AT], "local": [AT.replace(tzinfo=None)], "none": pa.array([None], pa.int32())})
    box.put("q", 1, 0, table)
    box.put("csv", 1, 0, table)
    box.run({"q": sink(tmp_path), "csv": External("csv", (("path", str(tmp_path / "csv")),))})
    assert lines(tmp_path) == [
        {"at": "2024-05-31T12:00:00.123456Z", "local": "2024-05-31T12:00:00.123456", "none": None}
    ]
    (text,) = tmp_path.glob("csv/*/*.csv")
    assert text.read_text().strip().startswith("2024-05-31T12:00:00.123456Z,2024-05-31T12:00:00.123456,")
    assert box.left() == []


def test_a_query_that_cannot_be_written_does_not_stop_those_it_shares_a_folder_with(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    both = sink(tmp_path, retry="0 seconds")
    box.put("good", 1, 0, pa.table({"n": [1]}))
    box.put("bad", 1, 0, b"PAR1 this is no Parquet file")
    box.put("too", 1, 0, pa.table({"n": [2]}))
    with pytest.raises(QueryFailed, match="query 'bad': json sink"):
        box.run({"good": both, "bad": both, "too": both})
    box.run({"good": both, "too": both})
    assert sorted(row["n"] for row in lines(tmp_path)) == [1, 2]
    assert box.left() == ["bad-0123abcd-00000001-000-0.parquet"]


def test_a_part_of_a_batch_that_was_taken_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    """A run was killed while it deleted what the sink had taken."""
    box = Outbox(tmp_path)
    first = box.put("q", 1, 0, pa.table({"n": [1]}))
    box.put("q", 1, 1, pa.table({"n": [2]}))
    box.run({"q": sink(tmp_path)})
    assert box.left() == []
    box.put("q", 1, 1, pa.table({"n": [2]}))
    (first.parent / ".delivered-1").touch()
    box.run({"q": sink(tmp_path)})
    assert sorted(row["n"] for row in lines(tmp_path)) == [1, 2]
    assert box.left() == []


def test_batches_that_wait_come_in_order_once_the_sink_is_back(tmp_path: Path) -> None:
    box, kept = Outbox(tmp_path), sink(tmp_path, retry="forever")
    (tmp_path / "out").write_text("a file where the folder was")
    for batch in (1, 2):
        box.put("q", batch, 0, pa.table({"n": [batch]}))
        box.run({"q": kept})
    pause = box.delivery.pause()
    assert pause
    assert "rows wait in the outbox, and the sink is tried again as long as it takes: json sink" in box.told.get()
    assert len(box.left()) == 2
    (tmp_path / "out").unlink()
    threading.Event().wait(pause)
    box.run({"q": kept})
    assert lines(tmp_path) == [{"n": 1}, {"n": 2}]
    assert box.told.get() == "the json sink of q takes rows again"
    assert box.delivery.pause() is None
    assert box.left() == []


def test_a_sink_that_stays_away_stops_its_query_and_no_other(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    (tmp_path / "out").write_text("a file where the folder was")
    box.put("q", 1, 0, pa.table({"n": [1]}))
    box.put("other", 1, 0, pa.table({"n": [1]}))
    given = {"q": sink(tmp_path, retry="0 seconds"), "other": External("json", (("path", str(tmp_path / "else")),))}
    with pytest.raises(QueryFailed, match="query 'q': json sink"):
        box.run(given)
    box.run({"other": given["other"]})
    assert list(tmp_path.glob("else/batch=00000001/*.json"))


def test_a_pipeline_goes_on_while_a_sink_is_away(mill: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = f"format = 'json', path = '{out}', retry = 'forever'"
    script = f"{STREAMS} SET heartbeat = '100 milliseconds'; CREATE QUERY q WITH ({given}) AS {PAIR} WINDOW 9 SECONDS;"
    found = mill(f"{script} CREATE QUERY other AS {PAIR} WINDOW 2 SECONDS;")
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    found.pipeline._tell = told.put
    found.pipeline.start()
    out.rename(tmp_path / "aside")
    out.write_text("a file where the folder was")
    for batch in BATCHES[:2]:
        found.put(batch)
        found.await_rows(24)
    same(found.results("other"), expected(2))
    while "rows wait in the outbox" not in told.get(timeout=60):
        pass
    out.unlink()
    (tmp_path / "aside").rename(out)
    while told.get(timeout=60) != "the json sink of q takes rows again":
        pass
    found.pipeline.stop()
    assert len(lines(tmp_path)) == len(expected(9))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("format = 'json', path = 'x', retry = 'soon'", "retry = 'soon'.*a length of time, or 'forever'"),
        ("format = 'json', path = 'x', retry = '-1 s'", "retry = '-1 s'.*a length of time, or 'forever'"),
        ("format = 'kafka', topic = 't', key = 'kk', {}", 'columns of the query: k, s. Did you mean "k"'),
    ],
)
def test_options_of_sinks_that_make_no_sense(options: str, said: str) -> None:
    given = options.format("'kafka.bootstrap.servers' = '127.0.0.1:1'")
    script = compile_script(f"{FROM_FILES} CREATE QUERY q WITH ({given}) AS {SELECT};").script
    with pytest.raises(ScriptError, match=said):
        raise wrong_ends(script)[0]
