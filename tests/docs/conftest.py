"""A folder as a reader of the documents has it: the README's clicks.sql, and rows for its two streams."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
KEY, TIME = ("AdId", pa.int64()), ("Ts", pa.timestamp("us", "UTC"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder the reader works in: two files a stream, and in the second a row that is late."""
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```sql\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "clicks.sql").write_text(script.replace("time = 'Ts'", "time = 'Ts', maxFilesPerTrigger = 1"))
    for number in range(2):
        times = [NOON + timedelta(minutes=number, seconds=second) for second in range(50)]
        shown = [{"AdId": n % 5, "Country": "NO", "Ts": time} for n, time in enumerate(times)]
        clicks = [{"AdId": n % 5, "Price": n % 3.0, "Ts": time} for n, time in enumerate(times)]
        if number:
            shown.append({"AdId": 1, "Country": "NO", "Ts": NOON - timedelta(hours=1)})
        put("impressions", number, shown, pa.schema([KEY, ("Country", pa.string()), TIME]))
        put("clicks", number, clicks, pa.schema([KEY, ("Price", pa.float64()), TIME]))
    return tmp_path


def put(stream: str, number: int, rows: list[dict[str, object]], schema: pa.Schema) -> None:
    path = Path("in") / stream / f"{number}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
