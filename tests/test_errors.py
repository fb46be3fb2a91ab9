"""Errors: their four parts, their places, and how they are collected."""

from __future__ import annotations

import pytest

from millstream.errors import (
    Errors,
    InternalError,
    NotSupportedYet,
    ScriptError,
    ScriptErrors,
    Where,
    did_you_mean,
    listing,
)


def error(found: str = "found", where: Where | None = None) -> ScriptError:
    return ScriptError(found, "valid", "Do this.", where)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (Where(), ""),
        (Where(4, 9), "line 4, column 9"),
        (Where(4, 9, "hot"), "query 'hot', line 4, column 9"),
        (Where(4, 9, "hot", "a.sql"), "a.sql, query 'hot', line 4, column 9"),
        (Where(file="a.sql"), "a.sql"),
    ],
)
def test_a_place_says_what_it_knows(where: Where, text: str) -> None:
    assert str(where) == text
    assert str(error(where=where)) == (f"{text}: " if text else "") + "found; valid. Do this."


def test_a_place_is_given_once_and_kept() -> None:
    placed = error().at(Where(3, 7)).at(Where(1, 1, "q"))
    assert placed.where == Where(3, 7, "q")


def test_an_error_at_a_place_is_of_the_same_kind() -> None:
    assert isinstance(NotSupportedYet("a", "b", "C.").at(Where(1, 1)), NotSupportedYet)


def test_errors_come_in_the_order_of_the_text_and_each_once() -> None:
    errors = Errors()
    for line in (3, 1, 3, 2):
        errors.add(error(f"line {line}", Where(line, 1)))
    with pytest.raises(ScriptErrors) as caught:
        errors.raise_if_any()
    assert [found.where.line for found in caught.value.errors] == [1, 2, 3]
    assert str(caught.value).count("\n") == 2


def test_no_errors_raise_nothing() -> None:
    Errors().raise_if_any()
    with pytest.raises(InternalError):
        ScriptErrors([])


@pytest.mark.parametrize(("names", "text"), [("", ""), ("a", "a"), ("abc", "a, b, c"), ("abcd", "a, b, c and 1 more")])
def test_long_lists_are_cut(names: str, text: str) -> None:
    assert listing(names, limit=3) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [("Vaule", 'Did you mean "Value"?'), ("VALUE", 'Did you mean "Value"?'), ("xyz", "Use one."), ("", "Use one.")],
)
def test_near_names_are_proposed(name: str, text: str) -> None:
    assert did_you_mean(name, ["Id", "Value"], "Use one.") == text
