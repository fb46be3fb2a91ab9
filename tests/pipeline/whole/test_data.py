"""Real rides and generated sensors on Spark: the rows that the data is known to give, and what the engine gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.lab.workloads.generators import Sensors
from millstream.testing import run

TAXI = Path(__file__).parents[4] / "shared" / "data" / "nyc_taxi"


@pytest.mark.skipif(not TAXI.exists(), reason="the taxi rides are not here")
def test_taxi_rides() -> None:
    from pyarrow import csv

    tables = {name: csv.read_csv(TAXI / f"{name}.csv.gz") for name in ("ride_start", "ride_end")}
    script = ""
    rows = {}
    for name, table in tables.items():
        script += f"CREATE STREAM {name} (rideId BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');\n"
        times = pa.compute.multiply(table["ts_ms"], 1000).cast(pa.timestamp("us", "UTC"))
        rows[name] = pa.table({"rideId": table["rideId"].cast(pa.int64()), "Ts": times})
    join = "SELECT s.rideId FROM ride_start s, ride_end e WHERE s.rideId = e.rideId"
    for minutes in (1, 10, 30):
        span = f"e.Ts BETWEEN s.Ts AND s.Ts + INTERVAL '{minutes}' MINUTE"
        script += f"CREATE QUERY within_{minutes} AS {join} AND {span};\n"
        script += f"CREATE QUERY strict_{minutes} AS {join} WINDOW {minutes} MINUTES;\n"
    cut = {
        name: [table.filter(_between(table, first, first + 30)) for first in range(0, 120, 30)]
        for name, table in rows.items()
    }
    assert {name: sum(map(len, parts)) for name, parts in cut.items()} == {"ride_start": 53_550, "ride_end": 46_450}
    found = run(script, cut, runner="spark")
    assert {name: len(table) for name, table in found.items()} == {
        "within_1": 595,
        "within_10": 22_693,
        "within_30": 45_116,
        "strict_1": 350,
        "strict_10": 21_358,
        "strict_30": 44_988,
    }


def _between(table: pa.Table, first: int, last: int) -> pa.ChunkedArray:
    start = datetime(2013, 1, 1, tzinfo=UTC)
    low, high = (pa.scalar(start + timedelta(minutes=m), pa.timestamp("us", "UTC")) for m in (first, last))
    times = table["Ts"]
    return pa.compute.and_(pa.compute.greater_equal(times, low), pa.compute.less(times, high))


def test_seven_windows_of_sensors() -> None:
    streams = "\n".join(
        f"CREATE STREAM {name} (LocationId INT, Value DOUBLE, Reading BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');"
        for name in ("Warm", "Wet")
    )
    for window in (1, 5, 10, 15, 20, 25, 30):
        streams += f"\nCREATE QUERY w{window} AS SELECT * FROM Warm T, Wet H WHERE T.LocationId = H.LocationId"
        streams += f" WINDOW {window} SECONDS;"
    sensors = Sensors(rate=200, locations=40, seconds=60)
    rows = {"Warm": list(sensors.batches(1, 5)), "Wet": list(sensors.batches(2, 5))}
    expected, found = run(streams, rows), run(streams, rows, runner="spark")
    for name, table in expected.items():
        key = [(column, "ascending") for column in table.column_names if "Reading" in column]
        assert len(table) > 0
        assert found[name].sort_by(key).equals(table.sort_by(key)), name
