"""The demo's readings, and what joins that share nothing would hold of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.compile import compile_script
from millstream.lab.workloads.datacentre import SPAN, STREAMS, Feed, join_times, unshared_rows

STREAMS_ONLY = """\
CREATE STREAM Temperature (LocationId INT, Value DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', delay = '5 seconds');
CREATE STREAM Humidity (LocationId INT, Value DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', delay = '5 seconds');
"""
SELECT = "SELECT T.Value FROM Temperature T, Humidity H WHERE T.LocationId = H.LocationId"
SCRIPT = f"""{STREAMS_ONLY}
CREATE QUERY near AS SELECT T.Value FROM Temperature T, Humidity H WHERE T.LocationId = H.LocationId WINDOW 10 SECONDS;
CREATE QUERY hot AS SELECT T.Value FROM Temperature T, Humidity H
WHERE T.LocationId = H.LocationId AND T.Value >= 50 WINDOW T 20 SECONDS, H 10 SECONDS;
"""


def test_the_feed_is_written_whole_and_within_the_delay(tmp_path: Path) -> None:
    feed = Feed(tmp_path, 5.0)
    steps = list(feed.write(lambda _: True, lambda: True))
    assert steps == list(range(feed.steps))
    for stream in STREAMS:
        files = sorted(feed.path(stream).glob("[0-9]*.parquet"))
        assert len(files) == feed.steps
        tables = [pq.read_table(file) for file in files]
        assert pa.concat_tables(tables).equals(pa.concat_tables(feed.written[stream]))
        times = [np.asarray(table["Ts"].cast(pa.int64())) for table in tables]
        for before, after in pairwise(times):
            assert after.min() >= before.max() - 5_000_000
        assert times[-1].max() - times[0].min() == pytest.approx(SPAN * 1e6, rel=0.01)
    assert feed.count() == sum(table.num_rows for table in feed.rows().values())


def test_a_feed_that_is_stopped_stops(tmp_path: Path) -> None:
    feed = Feed(tmp_path, 5.0)
    assert list(feed.write(lambda _: True, lambda: False)) == [0]
    assert list(Feed(tmp_path / "other", 5.0).write(lambda _: False, lambda: True)) == []


def test_joins_of_their_own_hold_what_their_windows_and_selections_need() -> None:
    """A reading a second, a hundred of them; the watermark lies 5 s behind the last, at 94 s."""
    begin = datetime(2024, 5, 31, tzinfo=UTC)
    table = pa.table(
        {
            "LocationId": pa.array([1] * 100, pa.int32()),
            "Value": [float(second) for second in range(100)],
            "Ts": pa.array([begin + timedelta(seconds=second) for second in range(100)], pa.timestamp("us", "UTC")),
        }
    )
    rows = dict.fromkeys(STREAMS, table)
    plan = compile_script(SCRIPT)
    # Younger than 10 s before the watermark: 85 to 99; within 20 s of it: 75 to 99.
    assert unshared_rows(plan, rows) == {"near": 15 + 15, "hot": 25 + 15}


def test_queries_that_share_nothing_take_longer(tmp_path: Path) -> None:
    feed = Feed(tmp_path, 5.0)
    list(feed.write(lambda _: True, lambda: True))
    batches = feed.batches()
    assert [sum(map(len, batch.values())) for batch in batches] == [
        sum(len(tables[step]) for tables in feed.written.values()) for step in range(feed.steps)
    ]
    text = "\n".join(f"CREATE QUERY q{n} AS {SELECT} WINDOW {n} SECONDS;" for n in range(1, 7))
    shared, apart = join_times(compile_script(STREAMS_ONLY + text), batches)
    assert shared < apart
