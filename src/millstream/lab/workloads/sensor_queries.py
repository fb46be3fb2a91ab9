"""The queries of the sensor workload: two streams of readings joined by location, a query for each window."""

from __future__ import annotations

from collections.abc import Sequence

STREAMS = ("Temperature", "Humidity")
SCHEMA = "LocationId INT, Value DOUBLE, Reading BIGINT, Ts TIMESTAMP"
COLUMNS = ("LocationId", "Value", "Reading", "Ts")
DELAY = 5
"""The watermark delay in seconds, for contestants that need one."""
_JOIN = "FROM Temperature T, Humidity H WHERE T.LocationId = H.LocationId"


def streams_script(delay: int = DELAY) -> str:
    hints = f"WITH (time = 'Ts', delay = '{delay} seconds', rate = 1000, keys = 20000)"
    return "".join(f"CREATE STREAM {name} ({SCHEMA}) {hints};\n" for name in STREAMS)


def windows_script(windows: Sequence[int], delay: int = DELAY) -> str:
    """A query per window (seconds), each with every column of both streams."""
    return streams_script(delay) + "".join(f"CREATE QUERY w{size} AS {select(size)};\n" for size in windows)


def select(window: float, also: str = "", columns: str = "*") -> str:
    """The query of a window, with a further condition on the pair if one is given."""
    return f"SELECT {columns} {_JOIN}{f' AND {also}' if also else ''} WINDOW '{window:g} seconds'"
