"""Calls of the user's own functions: whole columns in, one column of as many rows out, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millstream
from millstream.errors import QueryFailed, ScriptError, ScriptErrors


def test_a_registered_function_gets_whole_columns(example: Any) -> None:
    calls: list[tuple[int, int]] = []

    @millstream.function("DOUBLE", "DOUBLE", "DOUBLE")
    def mean(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        calls.append((len(left), len(right)))
        return (left + right) / 2

    found = example.values("mean(coalesce(A.d, 0), A.i * 1.0 - A.i + 2)", mean=mean)
    assert found[:3] == [2.25, 0.75, 1.0]
    assert found[3] is None
    assert example.values("mean(A.d, 1)", mean=mean) == [1.75, 0.25, 0.5, None]
    assert example.values("mean(3, 4)", mean=mean) == [3.5] * 4
    assert calls == [(4, 4), (4, 4), (1, 1)]


@pytest.mark.parametrize(
    ("give", "why"),
    [
        (lambda column: column[:1], "odd was given 4 rows and gave 1 values"),
        (lambda column: np.concatenate([column, column]), "odd was given 4 rows and gave 8 values"),
        (lambda _: 5, "odd was given 4 rows and gave no column but int"),
        (lambda _: np.array(5), "odd was given 4 rows and gave no column but ndarray of shape ()"),
        (lambda column: column.reshape(2, 2), "no column but ndarray of shape (2, 2)"),
        (lambda _: "abcd", "no column but str"),
        (lambda _: dict.fromkeys(range(4)), "no column but dict"),
        (lambda _: None, "no column but NoneType"),
        (lambda column: ["x"] * len(column), "odd gave values that cannot be INT"),
        (lambda column: column + 0.5, "odd gave values that cannot be INT"),
        (lambda column: [2**40] * len(column), "odd gave values that cannot be INT"),
    ],
)
def test_a_registered_function_gives_one_value_for_every_row(
    example: Any, give: Callable[[Any], Any], why: str
) -> None:
    odd = millstream.function("INT", "INT", name="odd")(give)
    with pytest.raises(QueryFailed, match=re.escape(why)):
        example.values("odd(coalesce(A.i, 0))", odd=odd)


@pytest.mark.parametrize("give", [list, tuple, pa.array, lambda column: pa.chunked_array([column, []], pa.int32())])
def test_a_registered_function_may_give_any_kind_of_column(example: Any, give: Callable[[Any], Any]) -> None:
    same = millstream.function("INT", "INT", name="same")(give)
    assert example.values("same(coalesce(A.i, 0))", same=same) == [7, -3, 0, 0]


def test_a_registered_function_of_constants_is_refused_a_wrong_length_too(example: Any) -> None:
    many = millstream.function("INT", "INT", name="many")(lambda _: [1, 2, 3])
    with pytest.raises(QueryFailed, match="many was given 1 rows and gave 3 values"):
        example.values("many(5)", many=many)


def test_what_a_registered_function_masks_is_null(example: Any) -> None:
    odd = millstream.function("INT", "INT", name="odd")(lambda column: np.ma.masked_greater(column, 0))
    assert example.values("odd(coalesce(A.i, 0))", odd=odd) == [None, -3, 0, 0]


def test_a_registered_function_is_never_given_rounded_integers(example: Any) -> None:
    """With a missing value among them NumPy has integers as floats, which cannot hold all of them."""
    same = millstream.function("BIGINT", "BIGINT", name="same")(lambda column: column)
    large = f"CASE WHEN A.i > 0 THEN {2**53 + 1} ELSE CAST(A.i AS BIGINT) END"
    assert example.values(f"same(coalesce({large}, 0))", same=same) == [2**53 + 1, -3, 0, 0]
    with pytest.raises(QueryFailed, match="same was given a missing value beside integers beyond"):
        example.values(f"same({large})", same=same)
    assert example.values("same(CAST(A.i AS BIGINT))", same=same) == [7, -3, 0, None]


@pytest.mark.parametrize("kind", ["DECIMAL(10, 2)", "ARRAY<ARRAY<INT>>", "MAP<INT, INT>"])
def test_a_registered_function_has_plain_types(kind: str) -> None:
    with pytest.raises(ScriptError, match=r"functions take and give TINYINT, .*TIMESTAMP_NTZ, and ARRAYs of these"):
        millstream.function("INT", kind, name="f")


def test_a_registered_function_may_go_by_another_name(example: Any) -> None:
    @millstream.function("INT", "INT")
    def twice(column: np.ndarray) -> np.ndarray:
        return column * 2

    assert example.values("doubled(coalesce(A.i, 0))", doubled=twice) == [14, -6, 0, 0]
    assert example.values("mixed(coalesce(A.i, 0))", Mixed=twice) == [14, -6, 0, 0]
    with pytest.raises(ScriptErrors, match='no function "twice"'):
        example.values("twice(A.i)", doubled=twice)


def test_a_decorated_function_can_be_called() -> None:
    @millstream.function("INT", "INT")
    def twice(column: np.ndarray) -> np.ndarray:
        return column * 2

    assert np.asarray(twice(np.array([1, 2]))).tolist() == [2, 4]


def test_a_registered_function_takes_and_gives_arrays(example: Any) -> None:
    lots = millstream.function("ARRAY<INT>", "INT", name="lots")(lambda column: [[int(one)] * 2 for one in column])
    total = millstream.function("INT", "array<int>", name="total")(lambda column: [sum(one) for one in column])
    assert example.values("lots(coalesce(A.i, 0))", lots=lots)[:2] == [[7, 7], [-3, -3]]
    assert example.values("total(lots(coalesce(A.i, 0)))", lots=lots, total=total) == [14, -6, 0, 0]
    ragged = millstream.function("ARRAY<INT>", "INT", name="ragged")(lambda column: [["x"]] * len(column))
    with pytest.raises(QueryFailed, match="ragged gave values that cannot be ARRAY<INT>"):
        example.values("ragged(A.i)", ragged=ragged)


@pytest.mark.parametrize("call", ["concat(A.s, NULL)", "concat(NULL, NULL)", "A.s || NULL", "concat(NULL, 'a')"])
def test_concat_with_null_is_null(example: Any, call: str) -> None:
    assert example.values(call) == [None] * 4
