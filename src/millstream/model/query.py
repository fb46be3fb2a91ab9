"""A declared query: an inner join of streams within a window."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from millstream.errors import ScriptError, Where
from millstream.model.expr import Expr, sources
from millstream.model.interval import Interval
from millstream.model.stream import Stream, check_column, check_name
from millstream.model.types import BOOLEAN, DataType

_MOST_WEIGHT = 1e12


@dataclass(frozen=True, slots=True)
class Source:
    """A stream under the name the query gives it."""

    alias: str
    stream: Stream


@dataclass(frozen=True, slots=True)
class Key:
    """An equality between two sources. `type` is the type both sides are compared as."""

    left: Expr
    right: Expr
    type: DataType


@dataclass(frozen=True, slots=True)
class Bound:
    """T_right - T_left of two sources lies in the interval."""

    left: int
    right: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Bounds on the time difference of every pair of sources."""

    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """A number of latest rows of each source."""

    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        for count in self.rows:
            if count <= 0:
                raise ScriptError(
                    f"a window of {count} ROWS holds nothing",
                    "a window holds at least one row",
                    "Give a positive number of rows.",
                )


def parse_weight(given: str) -> float:
    """The weight of a query, from the text of its option."""
    try:
        weight = float(given)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < _MOST_WEIGHT:
        raise ScriptError(
            f"weight = {given!r}",
            f"a weight is a number from 0 to below {_MOST_WEIGHT:.0e}; queries without one have 1",
            "Write for example weight = 2.",
        )
    return weight


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Query:
    """A checked query. Predicates are canonical conjuncts; `selections` has one tuple per source."""

    name: str
    sources: tuple[Source, ...]
    keys: tuple[Key, ...]
    selections: tuple[tuple[Expr, ...], ...]
    residual: tuple[Expr, ...]
    window: TimeWindow | RowsWindow
    outputs: tuple[Output, ...]
    options: tuple[tuple[str, str], ...] = ()
    where: Where = field(default=Where(), compare=False)

    @property
    def weight(self) -> float:
        """How much its results count where some must be left out."""
        return parse_weight(next((value for name, value in self.options if name.lower() == "weight"), "1"))

    def __post_init__(self) -> None:
        check_name("query", self.name)
        _ = self.weight
        if len(self.sources) < 2:
            raise ScriptError(
                f"query {self.name} reads one stream",
                "a query joins two streams or more",
                "Name a second stream in FROM.",
            )
        if len(self.selections) != len(self.sources):
            raise ScriptError(f"query {self.name} has {len(self.selections)} selections", "one per source", "Add it.")
        for index, selection in enumerate(self.selections):
            for predicate in selection:
                if predicate.type != BOOLEAN or sources(predicate) != {index}:
                    raise ScriptError(
                        f"a selection on {self.sources[index].alias} looks elsewhere or is {predicate.type}",
                        "a selection is a BOOLEAN over its own source",
                        "Make it a residual predicate.",
                    )
        names = Counter(output.name.lower() for output in self.outputs)
        for output in self.outputs:
            check_column(output.name)
            if names[output.name.lower()] > 1:
                raise ScriptError(
                    f'two result columns are named "{output.name}"',
                    "result columns have different names",
                    "Rename one with AS.",
                )
