"""`millstream bench tricks`: each trick gives what the plain way gives, and the table tells which is faster."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.lab.bench import tricks as bench_tricks
from millstream.lab.bench.tricks import Trick, report, tricks


def plain(found: Any) -> Any:
    """What can be compared with ==."""
    if isinstance(found, tuple | list):
        return [plain(one) for one in found]
    if isinstance(found, pa.RecordBatch):
        return [plain(column) for column in found.columns]
    if hasattr(found, "values") and isinstance(found.values, dict):
        return [plain(one) for one in found.values.values()]
    if isinstance(found, pa.Array):
        return found.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(found.type) else found.to_pylist()
    return found.tolist() if isinstance(found, np.ndarray) else found


@pytest.mark.parametrize("scale", [0.001, 0.05])
def test_a_trick_gives_what_the_plain_way_gives(tmp_path: Path, scale: float) -> None:
    """Batches differ from call to call, so a trick that takes turns with the plain way is asked from its beginning."""
    asked = {one.name: plain(one.plain()) for one in tricks(tmp_path, scale)}
    found = {one.name: plain(one.trick()) for one in tricks(tmp_path, scale)}
    assert len(found) > 20
    for name, wanted in asked.items():
        assert found[name] == wanted, name


def test_the_table_tells_the_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(rounds: int) -> None:
        began = time.thread_time()
        while time.thread_time() - began < rounds / 1_000:
            pass

    monkeypatch.setattr(bench_tricks, "tricks", lambda _: [Trick("half the work", lambda: work(8), lambda: work(4))])
    _, line = report(rounds=1)
    name, slow, fast, ratio = re.split(r"\s{2,}", line)
    assert name == "half the work"
    assert float(slow) == pytest.approx(8, rel=0.2)
    assert float(fast) == pytest.approx(4, rel=0.2)
    assert float(ratio) == pytest.approx(2, rel=0.2)
