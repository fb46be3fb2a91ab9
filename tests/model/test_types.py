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
        (DataType("DECIMAL", 10, 2), INT, DataType("DECIMAL", 12, 2)),
        (DataType("DECIMAL", 10, 2), BIGINT, DataType("DECIMAL", 22, 2)),
        (DataType("DECIMAL", 10, 2), DataType("DECIMAL", 6, 4), DataType("DECIMAL", 12, 4)),
        (DataType("DECIMAL", 38, 0), DataType("DECIMAL", 38, 0), DataType("DECIMAL", 38, 0)),
        (DataType("DECIMAL", 38, 30), BIGINT, None),
        (DataType("DECIMAL", 38, 0), DataType("DECIMAL", 10, 2), None),
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


def test_fields_with_odd_names_are_quoted() -> None:
    fields = tuple(Field(name, INT) for name in ("plain", "first name", "a`b", "1st", "größe"))
    assert str(DataType("STRUCT", fields=fields)) == (
        "STRUCT<plain: INT, `first name`: INT, `a``b`: INT, `1st`: INT, `größe`: INT>"
    )


@pytest.mark.parametrize(
    ("a", "op", "b", "expected"),
    [
        ((10, 2), "+", (10, 2), (11, 2)),
        ((10, 2), "-", (4, 4), (13, 4)),
        ((10, 2), "*", (10, 2), (21, 4)),
        ((10, 2), "%", (4, 1), (5, 2)),
        ((38, 18), "*", (38, 18), (38, 6)),
        ((38, 18), "+", (38, 0), (38, 6)),
        ((38, 2), "+", (38, 2), (38, 2)),
        ((38, 38), "*", (38, 38), (38, 37)),
    ],
)
def test_decimals_have_as_many_digits_as_in_spark(
    a: tuple[int, int], op: str, b: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert types.decimal_result(op, types.decimal(*a), types.decimal(*b)) == types.decimal(*expected)


@pytest.mark.parametrize("a", EVERY, ids=str)
@pytest.mark.parametrize("b", EVERY, ids=str)
def test_what_becomes_another_type_without_loss_can_be_cast_to_it(a: DataType, b: DataType) -> None:
    common = types.common(a, b)
    if common is not None and NULL not in (a, b):
        assert types.can_cast(a, common)
        assert types.can_cast(b, common)
    if types.widens(a, b) and NULL not in (a, b):
        assert types.can_cast(a, b) or a.family in ("interval", "nested")


def test_a_number_and_a_decimal_meet_in_a_type_that_holds_both() -> None:
    for kind in (SMALLINT, INT, BIGINT, types.decimal(20, 5), types.decimal(38, 0)):
        for other in (types.decimal(5, 5), types.decimal(10, 2), types.decimal(38, 30)):
            common = types.common(kind, other)
            assert common is None or (types.widens(kind, common) and types.widens(other, common))
