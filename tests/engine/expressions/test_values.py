"""What an expression gave, an array or a scalar, as a column or a mask of so many rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millstream.engine import widths
from millstream.engine.expressions.values import as_array, as_bools, as_mask


def test_a_mask_lets_only_true_pass() -> None:
    assert as_mask(pa.array([True, None, False]), 3).tolist() == [True, False, False]
    for value, wanted in ((True, True), (False, False), (None, False)):
        assert as_mask(pa.scalar(value, pa.bool_()), 2).tolist() == [wanted, wanted]
    assert as_mask(pa.array([None, None], pa.bool_()), 2).dtype == np.bool_


def test_a_constant_is_repeated_in_the_type_that_is_asked_for() -> None:
    assert as_array(pa.scalar(7, pa.int32()), 3, pa.int64()).equals(pa.array([7, 7, 7], pa.int64()))
    assert as_array(pa.array([1, None], pa.int8()), 2, pa.float64()).equals(pa.array([1.0, None]))
    kept = pa.array(["a"])
    assert as_array(kept, 1, pa.string()) is kept


def test_a_constant_that_outgrows_a_column_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widths, "CAPACITY", 20)
    with pytest.raises(pa.ArrowCapacityError):
        as_array(pa.scalar("abc"), 10, pa.string())


def test_bools_can_be_written_on() -> None:
    found = as_bools(pa.array([True, False]))
    found &= np.array([False, True])
    assert found.tolist() == [False, False]
