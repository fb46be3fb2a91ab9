"""Registering Python functions for use in scripts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream import function
from millstream.errors import ScriptError
from millstream.model.expr import Column, Literal
from millstream.model.functions import BUILTINS
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, STRING, TIMESTAMP, DataType


def columns(kinds: tuple[DataType, ...]) -> list[Column]:
    return [Column(0, f"c{n}", kind) for n, kind in enumerate(kinds)]


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
    assert function("BOOLEAN", "DOUBLE", "DOUBLE")(near).result(columns(args)) == BOOLEAN


@pytest.mark.parametrize("args", [(DOUBLE,), (DOUBLE, DOUBLE, DOUBLE), (DOUBLE, STRING), (TIMESTAMP, DOUBLE), ()])
def test_other_arguments_do_not(args: tuple[DataType, ...]) -> None:
    with pytest.raises(ScriptError, match=r"near got .*; it is near\(DOUBLE, DOUBLE\)"):
        function("BOOLEAN", "DOUBLE", "DOUBLE")(near).result(columns(args))


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


@pytest.mark.parametrize(
    ("name", "kinds", "position"),
    [("round", (DOUBLE, INT), 2), ("substring", (STRING, INT), 2), ("replace", (STRING, STRING, STRING), 2)],
)
def test_some_arguments_are_constants(name: str, kinds: tuple[DataType, ...], position: int) -> None:
    function = BUILTINS[name]
    with pytest.raises(ScriptError, match=f"argument {position} of {name} is not a constant"):
        function.result(columns(kinds))
    constants = [Literal(1 if kind == INT else "a", kind) for kind in kinds[1:]]
    assert function.result([*columns(kinds[:1]), *constants]) == kinds[0]
