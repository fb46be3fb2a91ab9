"""Errors of users' functions are told with their place in the user's code."""

from __future__ import annotations

from collections.abc import Callable, Sized

import pyarrow as pa
import pytest

import millstream
from millstream.engine.blame import cause_of
from millstream.engine.expressions.registered import caller
from millstream.model.types import INT


def raised(call: Callable[[], object]) -> str:
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    return cause_of(caught.value)


def deeper(value: Sized) -> object:
    raise ValueError(f"not today: {len(value)}")


@millstream.function("INT", "INT")
def odd(value: Sized) -> object:
    return deeper(value)


def test_the_traceback_begins_in_the_users_function() -> None:
    told = raised(lambda: caller(odd, INT)([pa.array([1, 2])], 2)).splitlines()
    here = deeper.__code__.co_filename
    assert told[0] == "ValueError: not today: 2"
    assert told[1].startswith(f"  {here}, line ")
    assert told[1].endswith(", in odd")
    assert told[2] == "    return deeper(value)"
    assert told[3] == f"  {here}, line {deeper.__code__.co_firstlineno + 1}, in deeper"
    assert len(told) == 5


def test_errors_of_our_own_have_no_traceback() -> None:
    few = millstream.function("INT", "INT", name="few")(lambda value: value[:1])
    told = raised(lambda: caller(few, INT)([pa.array([1, 2])], 2))
    assert told == "ValueError: few was given 2 rows and gave 1 values; a function gives one value for every row"
    assert raised(lambda: pa.array(["x"]).cast(pa.int32())).startswith("ArrowInvalid: ")
    assert cause_of(KeyError()) == "KeyError"
