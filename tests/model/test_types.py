"""Which types may meet, and what they become."""

from __future__ import annotations

import pytest

from millstream.errors import ScriptError
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
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Field,
)

ARRAY = DataType("ARRAY", parts=(INT,))
EVERY = [
    *(
        SMALLINT,
        INT,
        BIGINT,
        FLOAT,
        DOUBLE,
        DataType("DECIMAL", 10, 2),
        STRING,
        BOOLEAN,
        DATE,
        TIMESTAMP,
        TIMESTAMP_NTZ,
    ),
    *(INTERVAL, BINARY, NULL, ARRAY, DataType("STRUCT", fields=(Field("a", INT),))),
]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (INT, BIGINT, BIGINT),
        (SMALLINT, INT, INT),
        (FLOAT, FLOAT, FLOAT),
        (INT, FLOAT, DOUBLE),
        (DataType("DECIMAL", 10, 2), INT, DataType("DECIMAL", 38, 2)),
        (DataType("DECIMAL", 10, 2), DOUBLE, DOUBLE),
        (DATE, TIMESTAMP, TIMESTAMP),
        (NULL, STRING, STRING),
        (ARRAY, ARRAY, ARRAY),
        (INT, STRING, None),
        (BOOLEAN, INT, None),
        (TIMESTAMP, TIMESTAMP_NTZ, None),
        (TIMESTAMP, INTERVAL, None),
        (ARRAY, DataType("ARRAY", parts=(STRING,)), None),
    ],
)
def test_common(a: DataType, b: DataType, expected: DataType | None) -> None:
    assert types.common(a, b) == expected


@pytest.mark.parametrize("a", EVERY, ids=str)
@pytest.mark.parametrize("b", EVERY, ids=str)
def test_common_does_not_depend_on_the_side(a: DataType, b: DataType) -> None:
    assert types.common(a, b) == types.common(b, a)


@pytest.mark.parametrize("kind", EVERY, ids=str)
def test_a_type_has_itself_in_common_with_itself_and_null(kind: DataType) -> None:
    assert types.common(kind, kind) == kind
    assert types.common(kind, NULL) == kind


@pytest.mark.parametrize(("name", "kind"), [("int", INT), ("Long", BIGINT), ("VARCHAR", STRING), ("bool", BOOLEAN)])
def test_simple_names(name: str, kind: DataType) -> None:
    assert types.simple(name) == kind


def test_an_unknown_name_is_answered_with_a_near_one() -> None:
    with pytest.raises(ScriptError, match=r'no type "DUBLE".*Did you mean "DOUBLE"'):
        types.simple("DUBLE")


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_decimals_out_of_reach(precision: int, scale: int) -> None:
    with pytest.raises(ScriptError, match="precision is 1 to 38"):
        types.decimal(precision, scale)
