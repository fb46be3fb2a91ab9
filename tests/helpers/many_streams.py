"""Random joins of two to five streams: several queries over the same streams, so that they share state.

A case knows its queries by their parts, and writes each twice: in our language, and in plain SQL for DuckDB, where
every bound on time is a comparison of its own and every equality stands in WHERE. So DuckDB's answer does not depend on
our parser. Every row has a number of its own within its stream (`id`), and every result names the rows it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from many_bounds import Limit, Part, Window, bounds
from millstream.engine.backlog import Budget
from millstream.model.settings import POLICY_NAMES

Rows = list[dict[str, Any]]
START = datetime(2024, 1, 1, tzinfo=UTC)
KEYS: dict[str, tuple[Any, ...]] = {
    "INT": (*[1] * 8, 2, 0, None),
    "BIGINT": (*[1] * 8, 2**53, 2**53 + 1, None),
    "STRING": (*["a"] * 8, "aa", "", None),
    "DOUBLE": (*[1.0] * 8, float(2**53), 0.0, -0.0, float("nan"), None),
    "DECIMAL(9, 2)": (*[Decimal("1.00")] * 8, Decimal("2.00"), Decimal("2.50"), None),
}
"""Hot keys, with now and then another one or a null. As a DOUBLE, 2**53 equals two BIGINTs."""
NUMBERS = ("INT", "BIGINT", "DOUBLE", "DECIMAL(9, 2)")
ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "DOUBLE": pa.float64(),
    "DECIMAL(9, 2)": pa.decimal128(9, 2),
    "DECIMAL(4, 2)": pa.decimal128(4, 2),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}
MOST_ROWS = {2: 24, 3: 14, 4: 8, 5: 5}
"""The rows of a stream where the widest query has so many sources: the oracle looks at all combinations of rows."""
EQUALITIES = (
    ("{}.x", "{}.x"),
    ("{}.x", "{}.x"),
    ("{}.y", "{}.y"),
    ("{}.y", "{}.y"),
    ("{}.n", "{}.n"),
    ("abs({}.n)", "{}.n"),
    ("{}.n + 1", "{}.n"),
    ("{}.n % 2", "{}.n % 2"),
    ("{}.m", "{}.n"),
)
SELECTIONS = (
    "{0}.v > 0",
    "{0}.v IS NULL",
    "NOT {0}.v >= 1.5",
    "({0}.v < 1 OR {0}.n = 1)",
    "{0}.n % 2 = 1",
    "{0}.n >= 0",
)
RESIDUALS = {
    2: (
        "{0}.v + {1}.v > 0",
        "{0}.n <> {1}.n",
        "{0}.n < {1}.n",
        "{0}.n <= {1}.n",
        "({0}.v IS NULL OR {1}.v < 1)",
        "abs({0}.n - {1}.n) <= 1",
        "{0}.m + {1}.m > 2",
    ),
    3: (
        "{0}.n + {1}.n > {2}.n",
        "{0}.n + {1}.n = {2}.n",
        "coalesce({0}.v, {1}.v, {2}.v, 0) >= 0",
        "CASE WHEN {0}.n > {1}.n THEN {2}.v ELSE {1}.v END > 0",
        "({0}.Ts <= {1}.Ts OR {1}.n = {2}.n)",
    ),
    4: ("{0}.n + {1}.n > {2}.n - {3}.n", "({0}.n = {1}.n OR {2}.n = {3}.n)"),
    5: ("{0}.n + {1}.n + {2}.n + {3}.n >= {4}.n",),
}


@dataclass(frozen=True, kw_only=True)
class ManyQuery:
    """A query over `streams`, each under the alias at the same position. `limits` are its bounds on time, `window` is
    how they are written: a WINDOW clause, or conditions.
    """

    name: str
    streams: tuple[str, ...]
    aliases: tuple[str, ...]
    equalities: tuple[Part, ...]
    others: tuple[Part, ...]
    limits: tuple[Limit, ...]
    window: Window
    style: str
    columns: tuple[str, ...]
    """What is selected beside the numbers of the rows; a star is everything."""

    def sql(self) -> str:
        """CREATE QUERY in our language."""
        clause = f" WINDOW {self.window.format(*self.aliases)}" if isinstance(self.window, str) else ""
        timed = () if isinstance(self.window, str) else self.window
        return (
            f"CREATE QUERY {self.name} AS SELECT {self._selected()} FROM {self._from([*self.others, *timed])}{clause};"
        )

    def _selected(self) -> str:
        if "*" in self.columns:
            return "*"
        return ", ".join([*(f"{alias}.id AS {alias}_id" for alias in self.aliases), *self.columns])

    def _from(self, parts: Sequence[Part]) -> str:
        sources = [a if a == s else f"{s} {a}" for a, s in zip(self.aliases, self.streams, strict=True)]
        if self.style == "where":
            conditions = " AND ".join(part.over(self.aliases) for part in (*self.equalities, *parts))
            return f"{', '.join(sources)} WHERE {conditions}"
        if self.style == "using":
            joined = " JOIN ".join([sources[0], *(f"{source} USING (x)" for source in sources[1:])])
            rest = " AND ".join(part.over(self.aliases) for part in parts)
            return f"{joined} WHERE {rest}" if rest else joined
        text, left = sources[0], [*self.equalities, *parts]
        for number, source in enumerate(sources[1:], 1):
            here = [part for part in left if max(part.sources) <= number]
            left = [part for part in left if part not in here]
            on = " AND ".join(part.over(self.aliases) for part in here)
            text += f" JOIN {source} ON {on}" if on else f" CROSS JOIN {source}"
        return text

    def duck_sql(self) -> str:
        """The query for DuckDB."""
        conditions = [part.over(self.aliases) for part in (*self.equalities, *self.others)]
        conditions += [limit.duck_sql(self.aliases) for limit in self.limits]
        sources = ", ".join(f"{stream} AS {alias}" for alias, stream in zip(self.aliases, self.streams, strict=True))
        return f"SELECT {', '.join(self._duck_columns())} FROM {sources} WHERE {' AND '.join(conditions)}"

    def _duck_columns(self) -> Iterator[str]:
        if "*" not in self.columns:
            yield from (f"{alias}.id AS {alias}_id" for alias in self.aliases)
            yield from self.columns
            return
        if self.style == "using":
            yield f"{self.aliases[0]}.x AS x"
        for alias in self.aliases:
            names = [name for name in COLUMNS if self.style != "using" or name != "x"]
            yield from (f"{alias}.{name} AS {alias}_{name}" for name in names)

    def ids(self, row: Mapping[str, Any]) -> tuple[int, ...]:
        """The rows a result is made of, one of each source."""
        return tuple(row[f"{alias}_id"] for alias in self.aliases)


COLUMNS = ("id", "x", "y", "n", "m", "v", "Ts")


@dataclass(frozen=True, kw_only=True)
class ManyStream:
    name: str
    kinds: Mapping[str, str]
    delay: int
    rate: int
    keys: int = 1_000
    """By the paper's costs, a stream with one key is scanned and one with a thousand keys is not."""

    def sql(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.kinds.items())
        options = f"time = 'Ts', delay = '{self.delay} seconds', rate = {self.rate}, keys = {self.keys}"
        return f"CREATE STREAM {self.name} ({columns}) WITH ({options});"

    def table(self, rows: Rows) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=pa.schema([(name, ARROW[kind]) for name, kind in self.kinds.items()]))


@dataclass(frozen=True, kw_only=True)
class ManyCase:
    streams: tuple[ManyStream, ...]
    queries: tuple[ManyQuery, ...]
    batches: tuple[Mapping[str, Rows], ...]
    settings: Mapping[str, str]
    budget: Budget | None

    def script(self, *names: str) -> str:
        """The streams and these queries, or all."""
        chosen = [query for query in self.queries if not names or query.name in names]
        return "\n".join(part.sql() for part in (*self.streams, *chosen))

    def by_stream(self) -> dict[str, list[Rows]]:
        return {stream.name: [batch[stream.name] for batch in self.batches] for stream in self.streams}

    def rows(self) -> dict[str, Rows]:
        return {name: [row for part in parts for row in part] for name, parts in self.by_stream().items()}

    def arrival(self) -> dict[str, dict[int, int]]:
        """The batch of every row, by stream and number."""
        return {
            name: {row["id"]: number for number, part in enumerate(parts) for row in part}
            for name, parts in self.by_stream().items()
        }

    def times(self) -> dict[str, dict[int, datetime]]:
        return {name: {row["id"]: row["Ts"] for row in rows} for name, rows in self.rows().items()}


@st.composite
def cases(
    draw: st.DrawFn, most: int = 5, *, several_keys: bool = True, batches: tuple[int, int] = (1, 4), late: bool = False
) -> ManyCase:
    """Up to `most` sources in a query. Without `several_keys` every query joins all its sources by x alone, and numbers
    of different types do not meet. With `late`, rows fall back further than their stream's delay now and then.
    """
    names = "ABCDE"[: draw(st.sampled_from([count for count in (3, 4, 5, 5, 2, 4) if count <= most]))]
    kind = draw(st.sampled_from(sorted(KEYS)))
    mixed = several_keys and kind in NUMBERS and draw(st.sampled_from([False, False, True]))
    streams = []
    for name in names:
        x = draw(st.sampled_from(NUMBERS)) if mixed else kind
        y = draw(st.sampled_from(NUMBERS)) if mixed else "INT"
        kinds = {"id": "INT", "x": x, "y": y, "n": "INT", "m": "DECIMAL(4, 2)", "v": "DOUBLE", "Ts": "TIMESTAMP"}
        delay, rate = draw(st.sampled_from([0, 2] if late else [0, 0, 2, 5])), draw(st.sampled_from([1, 80]))
        keys = draw(st.sampled_from([1_000, 1]))
        streams.append(ManyStream(name=name, kinds=kinds, delay=delay, rate=rate, keys=keys))
    queries = [
        draw(many_queries(f"q{number}", names, several_keys=several_keys))
        for number in range(draw(st.sampled_from([2, 3, 1, 4])))
    ]
    cap = MOST_ROWS[max(len(query.streams) for query in queries)]
    count = draw(st.integers(*batches))
    arriving = draw(batches_of(streams, cap, count, late=late))
    chosen = draw(MANY_CHOICES)
    return ManyCase(
        streams=tuple(streams),
        queries=tuple(queries),
        batches=tuple(arriving),
        settings={name: chosen.of(values) for name, values in SETTINGS.items()},
        budget=chosen.of(BUDGETS),
    )


SETTINGS: dict[str, Sequence[str]] = {
    "slicing": ["cpu", "memory"],
    "costs": ["calibrated", "paper"],
    "system_overhead": ["0", "100"],
    "policy": POLICY_NAMES,
    "fairness": ["none", "oldest", "dynamic"],
    "queue_memory": ["256", "0.0005"],
    "order": ["eager", "strict"],
}
BUDGETS = [None, Budget(units=1), Budget(units=3), Budget(units=20), Budget(seconds=0), Budget(seconds=60)]


class Choices:
    """Many small choices from one number; to draw each of them would take most of a test's time. Zero is the first of
    everything.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def of(self, options: Sequence[Any]) -> Any:
        self._number, at = divmod(self._number, len(options))
        return options[at]


MANY_CHOICES = st.integers(0, 2**24 - 1).map(Choices)
"""Up to 24 bits, numbers are drawn evenly."""


@st.composite
def batches_of(
    draw: st.DrawFn, streams: Sequence[ManyStream], cap: int, count: int, *, late: bool
) -> list[dict[str, Rows]]:
    """Batches whose event times fall back no further than the stream's delay, unless rows are to be late. Streams go at
    about the same pace; some are empty for a while, few for good.
    """
    found: list[dict[str, Rows]] = [{} for _ in range(count)]
    sizes = [3, 4, 2, 1, 0, cap] if count < 4 else [2, 1, 1, 3, 0]
    for stream in streams:
        clock = greatest = number = 0
        silent = draw(st.sampled_from([False] * 29 + [True]))
        for batch in found:
            floor, rows = greatest - stream.delay, []
            size = 0 if silent else draw(st.sampled_from(sizes))
            for _ in range(min(size, cap - number)):
                choices = draw(MANY_CHOICES)
                clock += choices.of((2, 1, 3, 5) if late else (1, 0, 0, 1, 3))
                back = choices.of((0, 0, 3, 9)) if late else choices.of(range(stream.delay + 1))
                second = max(0 if late else floor, clock - back, 0)
                greatest = max(greatest, second)
                timeless = late and choices.of((False,) * 9 + (True,))
                rows.append(
                    {
                        "id": number,
                        "x": choices.of(KEYS[stream.kinds["x"]]),
                        "y": choices.of(KEYS[stream.kinds["y"]]),
                        "n": choices.of((1, 1, 1, 1, 0, 2, -1, None)),
                        "m": choices.of((Decimal("1.00"), Decimal("1.05"), Decimal("2.00"), None)),
                        "v": choices.of((0.5, -1.0, 0.0, 1.5, None)),
                        "Ts": None if timeless else START + timedelta(seconds=second),
                    }
                )
                number += 1
            batch[stream.name] = rows
            clock += draw(st.sampled_from([0, 0, 1, 2]))
    return found


@st.composite
def many_queries(draw: st.DrawFn, name: str, streams: str, *, several_keys: bool, each_once: bool = False) -> ManyQuery:
    """A query over some of these streams, or over `each_once`, in any order."""
    sizes = [size for size in (len(streams), 2, 3, 4) if size <= len(streams)]
    count = len(streams) if each_once else draw(st.sampled_from(sizes))
    chosen = draw(st.permutations(streams))[:count]
    if not each_once and draw(st.sampled_from([False, False, False, True])):  # some streams several times
        chosen = [draw(st.sampled_from(streams)) for _ in range(count)]
    aliases = [stream + str(chosen[:at].count(stream) or "") for at, stream in enumerate(chosen)]
    shapes = ["one", "one", "one", "composite", "partial", "tree", "tree", "cycle", "theta"]
    shape = draw(st.sampled_from(shapes)) if several_keys else "one"
    equalities, others = draw(join_predicates(count, shape))
    plain = [Part(text="{}.x = {}.x", sources=(0, at)) for at in range(1, count)]
    style = draw(st.sampled_from(["where", "on", "where", "on", "using"]))
    if style == "using":
        equalities = plain
    for source in range(count):
        if draw(st.sampled_from([False] * 2 * count + [True])):
            others.append(Part(text=draw(st.sampled_from(SELECTIONS)), sources=(source,)))
    if draw(st.sampled_from([False, False, True])):
        width = draw(st.integers(2, count))
        some = tuple(draw(st.permutations(range(count)))[:width])
        others.append(Part(text=draw(st.sampled_from(RESIDUALS[width])), sources=some))
    limits, window = draw(bounds(count))
    a, b = draw(st.permutations(aliases))[:2]
    columns = draw(
        st.sampled_from(
            [("*",), (), (f"{a}.n + {b}.n AS s", f"{b}.Ts AS t"), (f"{b}.x AS k", f"{a}.m * {b}.m AS p", f"{a}.v")]
        )
    )
    return ManyQuery(
        name=name,
        streams=tuple(chosen),
        aliases=tuple(aliases),
        equalities=tuple(equalities),
        others=tuple(others),
        limits=limits,
        window=window,
        style=style,
        columns=columns,
    )


@st.composite
def join_predicates(draw: st.DrawFn, count: int, shape: str) -> tuple[list[Part], list[Part]]:
    """Equalities that connect the sources, and other predicates where those do."""
    if shape == "one":
        return draw(tree_by(count, [("{}.x", "{}.x")])), []
    if shape == "composite":
        return [*draw(tree_by(count, [("{}.x", "{}.x")])), *draw(tree_by(count, [("{}.y", "{}.y")]))], []
    if shape == "partial":
        pair = tuple(draw(st.permutations(range(count)))[:2])
        return [*draw(tree_by(count, [("{}.x", "{}.x")])), Part(text="{}.y = {}.y", sources=pair)], []
    found = draw(tree_by(count, EQUALITIES))
    if shape == "cycle" and count > 2:
        pair = tuple(draw(st.permutations(range(count)))[:2])
        left, right = draw(st.sampled_from(EQUALITIES))
        return [*found, Part(text=f"{left} = {right}", sources=pair)], []
    if shape == "theta":
        loose = draw(st.integers(1, count - 1))
        inequality = draw(st.sampled_from(["{}.n < {}.n", "{}.n <> {}.n", "abs({}.n - {}.n) <= 1"]))
        loosened = Part(text=inequality, sources=found[loose - 1].sources)
        return [part for at, part in enumerate(found) if at != loose - 1], [loosened]
    return found, []


@st.composite
def tree_by(draw: st.DrawFn, count: int, forms: Sequence[tuple[str, str]]) -> list[Part]:
    """A random tree of equalities over the sources: chains, stars and what lies between."""
    order = draw(st.permutations(range(count)))
    found = []
    for at in range(1, count):
        pair = (order[draw(st.integers(0, at - 1))], order[at])
        left, right = draw(st.sampled_from(forms))
        found.append(Part(text=f"{left} = {right}", sources=pair if draw(st.booleans()) else pair[::-1]))
    return found
