"""docs/python.md names everything that is public, with the arguments it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import errors, testing
from millstream.pipeline.pipeline import Pipeline, QueryHandle
from millstream.pipeline.progress import BatchProgress, Response, SliceState
from millstream.testing.on_spark import run_on_spark

PAGE = (Path(__file__).parents[2] / "docs/python.md").read_text(encoding="utf-8")


def call(name: str, function: Callable[..., Any], *, bound: bool = True) -> str:
    """A function as the page writes it: without types, and with a default that is code as three dots."""
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    plain = [
        one.replace(
            annotation=one.empty,
            default=_Dots() if callable(one.default) and one.default is not one.empty else one.default,
        )
        for one in parameters
    ]
    return f"`{name}{inspect.Signature(plain)}`"


class _Dots:
    def __repr__(self) -> str:
        return "..."


def public(kind: type) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in vars(kind).items() if not name.startswith("_"))


def members(kind: type, made: object) -> Iterator[str]:
    """Methods with their arguments, properties, and what an object has beside them."""
    for name, value in public(kind):
        yield call(f"{kind.__name__}.{name}", value) if inspect.isfunction(value) else f"`{kind.__name__}.{name}`"
    for name in vars(made):
        if not name.startswith("_"):
            yield f"`{kind.__name__}.{name}`"


def expected(place: Path) -> Iterator[str]:
    yield from (f"`millstream.{name}`" for name in millstream.__all__ if name != "function")
    yield call("millstream.function", millstream.function, bound=False)
    yield call("Pipeline", Pipeline.__init__)
    pipeline = Pipeline("page", place)
    yield from members(Pipeline, pipeline)
    yield from members(QueryHandle, QueryHandle(pipeline, "page"))
    yield call("Session", testing.Session.__init__)
    yield from members(
        testing.Session,
        testing.Session(
            "CREATE STREAM A (k INT, ts TIMESTAMP) WITH (time = 'ts');"
            "CREATE QUERY q AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 1 SECOND"
        ),
    )
    for name in testing.__all__:
        if name != "Session":
            yield call(name, getattr(testing, name), bound=False)
    yield call("millstream.testing.on_spark.run_on_spark", run_on_spark, bound=False)
    for kind in (BatchProgress, Response, SliceState):
        yield f"`{kind.__name__}`"
        yield from (f"`{field.name}`" for field in fields(kind))
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.MillstreamError):
            yield f"`{name}`"


def test_everything_public_is_on_the_page(tmp_path: Path) -> None:
    assert [name for name in expected(tmp_path) if name not in PAGE] == []


@pytest.mark.parametrize("argument", list(inspect.signature(Pipeline).parameters))
def test_every_argument_of_a_pipeline_is_explained(argument: str) -> None:
    assert f"\n| `{argument}` | " in PAGE


def test_the_fields_of_a_batch_are_explained() -> None:
    """Each in a line of the table, and not just somewhere on the page."""
    table = PAGE.partition("## BatchProgress")[2].partition("## ")[0]
    lines = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [name.strip("` ") for line in lines for name in line.split(",")] == [
        field.name for field in fields(BatchProgress)
    ]
