"""Registering Python functions for use in scripts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream import function
from millstream.errors import ScriptError
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, STRING, TIMESTAMP, DataType


def near(a: object, b: object) -> object:
    return a, b


def test_a_function_is_known_by_its_name_or_the_one_it_is_given() -> None:
    assert function("BOOLEAN", "DOUBLE", "DOUBLE")(near).name == "near"
    assert function("BOOLEAN", "DOUBLE", "DOUBLE", name="Close_To")(near).name == "close_to"
    assert function("boolean", "double", "integer")(near).signature == "near(DOUBLE, INT)"


def test_a_function_keeps_what_it_calls() -> None:
    assert function("BOOLEAN", "DOUBLE", "DOUBLE")(near).call is near


@pytest.mark.parametrize("args", [(DOUBLE, DOUBLE), (INT, BIGINT), (NULL, DOUBLE)])
def test_narrower_numbers_fit(args: tuple[DataType, ...]) -> None:
    assert function("BOOLEAN", "DOUBLE", "DOUBLE")(near).result(args) == BOOLEAN


@pytest.mark.parametrize("args", [(DOUBLE,), (DOUBLE, DOUBLE, DOUBLE), (DOUBLE, STRING), (TIMESTAMP, DOUBLE), ()])
def test_other_arguments_do_not(args: tuple[DataType, ...]) -> None:
    with pytest.raises(ScriptError, match=r"near got .*; it is near\(DOUBLE, DOUBLE\)"):
        function("BOOLEAN", "DOUBLE", "DOUBLE")(near).result(args)


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda: function("BOOL", "FLOT"), 'no type "FLOT"'),
        (lambda: function("NOTHING", "INT"), 'no type "NOTHING"'),
        (lambda: function("INT", "INT", name="abs")(near), "there is a built-in function abs"),
        (lambda: function("INT", "INT", name="IF")(near), "there is a built-in function if"),
        (lambda: function("INT", "INT", name="cast")(near), "there is a built-in function cast"),
        (lambda: function("INT", "INT", name="a b")(near), "cannot be a function's name"),
        (lambda: function("INT", "INT")(lambda a: a), "cannot be a function's name"),
        (lambda: function("INT")(near), "near takes nothing"),
    ],
)
def test_what_cannot_be_called_cannot_be_registered(register: Callable[[], object], message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        register()
