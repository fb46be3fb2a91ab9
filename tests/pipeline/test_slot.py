"""A slot at work: rows in, a small report out, and what it keeps open between batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset

from millstream.pipeline import Pipeline
from two_streams import PAIR, STREAMS


def test_rows_that_cannot_be_used_are_late(tmp_path: Path) -> None:

    folder = tmp_path / "in"
    for name in "AB":
        (folder / name).mkdir(parents=True)
    (folder / "A" / "1.json").write_text(
        '{"k": 1, "v": 1.5, "Ts": "2024-01-01T00:00:00Z"}\n{"k": 1, "v": "no num\n{"k": 2, "v": 1.0}\n'
    )
    (folder / "B" / "1.json").write_text('{"k": 1, "v": 2.5, "Ts": "2024-01-01T00:00:00Z"}\n')
    script = STREAMS.replace("time = 'Ts'", "format = 'json', path = '{}', time = 'Ts'")
    for name in "AB":
        script = script.replace("'{}'", f"'{folder / name}'", 1)
    script += f"CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;"
    pipeline = Pipeline("test", tmp_path / "state", script=script)
    pipeline.drain()
    assert pipeline.results("q").to_pylist() == [{"k": 1, "av": 1.5, "bv": 2.5}]
    (folder / "B" / "2.json").write_text('{"k": 1, "v": 3.5, "Ts": "2023-12-31T23:00:00Z"}\n')
    again = Pipeline("test", tmp_path / "state", script=script)
    again.drain()
    late = {name: pyarrow.dataset.dataset(tmp_path / "state" / "late" / name).to_table().to_pylist() for name in "AB"}
    assert sorted((row["_reason"], row["_text"] is not None) for row in late["A"]) == [
        ("does not parse", True),
        ("null time", False),
    ]
    assert [(row["_reason"], row["v"], row["_chain"]) for row in late["B"]] == [
        ("older than the watermark", 3.5, "A B k = k")
    ]
    assert len(again.results("q")) == 1
