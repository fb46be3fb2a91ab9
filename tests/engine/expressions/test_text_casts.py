"""Every type that has a text: written and read again it is the same value."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions.text_casts import from_text, to_text
from millstream.errors import InternalError
from millstream.model import types
from millstream.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
)

MOMENT = datetime(2024, 2, 29, 23, 59, 58, 123400)
VALUES: list[tuple[DataType, list[Any]]] = [
    (TINYINT, [0, -128, 127]),
    (BIGINT, [0, -(2**63), 2**63 - 1]),
    (FLOAT, [0.5, -2.5, float("inf")]),
    (DOUBLE, [0.1, 1e300, -5e-324]),
    (types.decimal(10, 2), [Decimal("0.00"), Decimal("-99999999.99"), Decimal("1.05")]),
    (BOOLEAN, [True, False, True]),
    (DATE, [MOMENT.date(), datetime(1, 1, 1).date(), datetime(9999, 12, 31).date()]),
    (TIMESTAMP, [MOMENT.replace(tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, tzinfo=UTC)]),
    (TIMESTAMP_NTZ, [MOMENT, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (BINARY, [b"", b"abc", "ä".encode()]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES)
def test_what_is_written_is_read_again(kind: DataType, values: list[Any]) -> None:
    column = pa.array([*values, None], arrow_type(kind))
    texts = to_text(kind)(column)
    assert texts.type == pa.string()
    assert from_text(kind)(texts).equals(column)


@pytest.mark.parametrize("kind", [kind for kind, _ in VALUES if kind != BINARY])
def test_what_means_nothing_is_null(kind: DataType) -> None:
    found = from_text(kind)(pa.array(["", "junk", "--1", "1 2", None]))
    assert found.type == arrow_type(kind)
    assert found.null_count == 5


def test_truth_has_several_words() -> None:
    words = ["t", "TRUE", " y\n", "Yes", "1", "f", "false", "N", "no", "0", "2", "on"]
    assert from_text(BOOLEAN)(pa.array(words)).to_pylist() == [True] * 5 + [False] * 5 + [None] * 2


def test_types_without_a_text_are_our_own_mistake() -> None:
    with pytest.raises(InternalError, match="no cast from INTERVAL to STRING"):
        to_text(INTERVAL)
    with pytest.raises(InternalError, match="no cast from STRING to INTERVAL"):
        from_text(INTERVAL)
    assert to_text(INT)(pa.array([7], pa.int32())).to_pylist() == ["7"]
