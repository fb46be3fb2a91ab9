"""Functions of text against Python's own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.engine import widths
from millstream.engine.expressions import strings
from millstream.model import moments

letters = st.text(alphabet="aAbB %_ßΣσéΑ𝄞\t\n", max_size=12)
columns = st.lists(st.none() | letters, max_size=8)


def mapped(values: list[str | None], function: Any) -> list[Any]:
    return [None if one is None else function(one) for one in values]


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("length", len),
        ("upper", str.upper),
        ("lower", str.lower),
        ("trim", lambda text: text.strip(" ")),
        ("ltrim", lambda text: text.lstrip(" ")),
        ("rtrim", lambda text: text.rstrip(" ")),
    ],
)
@given(values=columns, plain=st.lists(st.none() | st.text(alphabet="abC d", max_size=6), max_size=5))
def test_functions_of_one_text(name: str, oracle: Any, values: list[str | None], plain: list[str | None]) -> None:
    """Of ASCII only, which Arrow changes by itself, and of all letters."""
    for some in (values, plain):
        assert strings.PLAIN[name](pa.array(some, pa.string())).to_pylist() == mapped(some, oracle)


@pytest.mark.parametrize(
    ("name", "oracle"),
    [("startswith", str.startswith), ("endswith", str.endswith), ("contains", str.__contains__)],
)
@given(values=columns, part=letters)
def test_parts_of_texts(name: str, oracle: Any, values: list[str | None], part: str) -> None:
    found = strings.with_constants(name, [part])(pa.array(values, pa.string())).to_pylist()
    assert found == mapped(values, lambda text: oracle(text, part))


def substring(text: str, position: int, length: int) -> str:
    """As Spark counts: from 1, or back from the end; what lies before the text counts too."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)] if length > 0 else ""


@given(values=columns, position=st.integers(-15, 15), length=st.none() | st.integers(-2, 15))
@example(values=["abc"], position=-2, length=2)
def test_substrings(values: list[str | None], position: int, length: int | None) -> None:
    constants = [position] if length is None else [position, length]
    found = strings.with_constants("substring", constants)(pa.array(values, pa.string())).to_pylist()
    assert found == mapped(values, lambda text: substring(text, position, 2**31 if length is None else length))


@given(values=columns, old=letters, new=letters)
def test_replaced_parts(values: list[str | None], old: str, new: str) -> None:
    found = strings.with_constants("replace", [old, new])(pa.array(values, pa.string())).to_pylist()
    assert found == mapped(values, lambda text: text.replace(old, new) if old else text)


@pytest.mark.parametrize("name", strings.WITH_CONSTANTS)
def test_a_null_constant_makes_all_null(name: str) -> None:
    found = strings.with_constants(name, [None])(pa.array(["a", None]))
    assert found.null_count == 2
    assert found.type == (pa.string() if name in ("substring", "replace") else pa.bool_())


def test_a_replacement_that_outgrows_a_column_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widths, "CAPACITY", 10)
    with pytest.raises(pa.ArrowCapacityError):
        strings.with_constants("replace", ["a", "bbb"])(pa.array(["aaaa"]))


@given(values=st.lists(st.none() | st.text(alphabet="a\x00\x1f \x7f\x85\xa0é", max_size=6), max_size=5))
def test_blanks_around_a_value_mean_nothing(values: list[str | None]) -> None:
    found = strings.unblanked(pa.array(values, pa.string())).to_pylist()
    assert found == mapped(values, lambda text: text.strip(moments.BLANKS))


def test_joined_texts() -> None:
    assert strings.joined(pa.array(["a", None, ""]), pa.scalar("-"), pa.array(["b", "c", "d"])).to_pylist() == [
        "a-b",
        None,
        "-d",
    ]
