"""What each optimisation of the engine saves, against the plain way to the same result, timed in one run.

A line is an optimisation whose gain must justify its code: below a ratio of 1.1 the plain way should replace it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine import fan_out, probe, release, segment
from millstream.engine.arrow import Ints
from millstream.engine.columns import Columns
from millstream.engine.expressions import branches, comparing, conditions, number_texts, numbers, rounding, strings
from millstream.engine.expressions.compiler import compile_expr
from millstream.engine.expressions.some_rows import chosen
from millstream.engine.files import Files, sync_paths
from millstream.engine.gathered_rows import MatchRanges
from millstream.engine.keys import codes
from millstream.engine.segment import Lot, Segment, build
from millstream.engine.store import FileStore
from millstream.model import types
from millstream.model.expr import Call, Column, Expr, Literal
from millstream.model.interval import Interval
from millstream.plan.nodes import RIGHT

Run = Callable[[], Any]
_LEAST = 0.01
"""The least seconds that can be measured well."""


@dataclass(frozen=True)
class Trick:
    """Two ways to the same result. `clock` measures CPU time, unless they wait for something else."""

    name: str
    plain: Run
    trick: Run
    clock: Callable[[], float] = time.thread_time


def report(rounds: int = 7) -> Iterator[str]:
    """The table of `millstream bench tricks`: the best of several rounds, in which both ways take turns."""
    yield f"{'trick':<66}{'plain ms':>10}{'trick ms':>10}{'ratio':>7}"
    with tempfile.TemporaryDirectory() as place:
        for one in tricks(Path(place)):
            plain, trick = _timed(one, rounds)
            yield f"{one.name:<66}{plain * 1e3:>10.3f}{trick * 1e3:>10.3f}{plain / trick:>7.2f}"


def _timed(one: Trick, rounds: int) -> tuple[float, float]:
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for number, way in enumerate((one.plain, one.trick)):
            best[number] = min(best[number], _once(way, one.clock))
    return best[0], best[1]


def _once(way: Run, clock: Callable[[], float]) -> float:
    """Seconds of one call; short calls are repeated."""
    calls, began = 0, clock()
    while calls == 0 or clock() - began < _LEAST:
        way()
        calls += 1
    return (clock() - began) / calls


def tricks(place: Path, scale: float = 1.0) -> Iterator[Trick]:
    """All optimisations, each on the number of rows it is made for, times the scale."""

    def rows(count: int) -> int:
        return max(int(count * scale), 40)

    rng = np.random.default_rng(5)
    yield from _of_segments(rng, rows)
    yield from _of_routing(rng, rows)
    yield from _of_expressions(rng, rows)
    yield from _of_texts(rng, rows)
    yield from _of_files(rng, rows, place)


Rows = Callable[[int], int]


def _of_segments(rng: np.random.Generator, rows: Rows) -> Iterator[Trick]:
    some = codes([pa.array(rng.integers(0, 20_000, rows(100_000)))], rows(100_000))
    yield Trick(
        "segment: sort codes with their positions packed in, 100,000",
        lambda: np.argsort(some, kind="stable"),
        lambda: segment._order(some),
    )
    at = np.arange(len(some))
    yield Trick(
        "segment: 100,000 rows that come in time sorted by their codes alone",
        lambda: np.lexsort((at, some)),
        lambda: segment._order(some),
    )
    large = _segment(rng, rows(200_000), rows(100_000))
    sought = np.sort(codes([pa.array(rng.integers(0, rows(100_000), rows(20_000)))], rows(20_000)))
    large._positions(sought)  # builds the lookup table, once per segment
    yield Trick(
        "segment: find 20,000 of 100,000 keys by their leading bits",
        lambda: np.searchsorted(large.keys, sought),
        lambda: large._positions(sought),
    )
    begin, end = large.ranges(sought)
    times = rng.integers(large.first, large.last, len(sought))
    yield Trick(
        "segment: search times in 20,000 ranges at once",
        lambda: _one_by_one(large.times, begin, end, times),
        lambda: large.locate(begin, end, times),
    )
    batch = _batch(rng, rows(1_000), 100)
    frame, order = Columns.of(batch), rng.permutation(rows(1_000))
    yield Trick(
        "frame: 1,000 rows of 4 columns taken as arrays",
        lambda: batch.take(pa.array(order)),
        lambda: frame.take(order),
    )
    yield Trick(
        "frame: a column gathered from an array at 1,000 rows",
        lambda: batch.column("v").take(pa.array(order)),
        lambda: frame.gather("v", order),
    )
    sizes = (600_000, 150_000, 40_000, 10_000)
    states = [_segment(rng, rows(size), rows(20_000), number) for number, size in enumerate(sizes, start=2)]
    # As in a pipeline, each batch matches other rows, which are not in the CPU caches.
    met = cycle([_Batch(_segment(rng, rows(1_000), rows(20_000)), states, rng) for _ in range(40)])
    yield Trick(
        "stacked: rows of 4 segments picked four at a time, then routed",
        lambda: next(met).taken(),
        lambda: next(met).picked(),
    )
    yield Trick(
        "probe: look up keys once, not once a row, 80,000 rows of 20,000 keys",
        lambda: states[0].ranges(states[1].row_keys()),
        lambda: tuple(some.repeat(states[1].counts) for some in states[0].ranges(states[1].keys)),
    )
    starts, counts = np.arange(0, rows(3_000) * 7, 7), rng.integers(1, 8, rows(3_000))
    yield Trick(
        "probe: numbers of ranges from a row of numbers at hand, 12,000",
        lambda: _spread(starts, counts),
        lambda: probe.spread(starts, counts),
    )


def _segment(rng: np.random.Generator, rows: int, keys: int, number: int = 1) -> Segment:
    batch = _batch(rng, rows, keys)
    return build(number, 1, Lot(1), batch, "Ts", codes([batch.column("k")], rows))


def _batch(rng: np.random.Generator, rows: int, keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "k": rng.integers(0, keys, rows),
            "v": rng.random(rows),
            "n": rng.integers(0, 9, rows).astype(np.int32),
            "Ts": pa.array(np.arange(rows) * 1_000).view(pa.timestamp("us", "UTC")),
        }
    )


def _one_by_one(values: Ints, begin: Ints, end: Ints, times: Ints) -> Ints:
    spans = zip(begin.tolist(), end.tolist(), times.tolist(), strict=True)
    return np.array([start + np.searchsorted(values[start:stop], time) for start, stop, time in spans])


def _spread(begin: Ints, counts: Ints) -> Ints:
    firsts: Ints = (begin - counts.cumsum() + counts).repeat(counts)
    return firsts + np.arange(counts.sum())


class _Batch:
    """A batch with matches in several segments, which are then sorted by class."""

    _columns = ("k", "v", "n")

    def __init__(self, prober: Segment, states: list[Segment], rng: np.random.Generator) -> None:
        self._states = states
        self._found = [probe.ranges(prober, RIGHT, state, Interval(-(10**12), 10**12)) for state in states]
        self._met = MatchRanges(states, self._found)
        self._order = np.argsort(rng.integers(0, 12, len(self._met)), kind="stable")

    def taken(self) -> list[np.ndarray]:
        """Takes each segment's rows separately and concatenates them."""
        rows = [probe.spread(begin, end - begin) for begin, end in self._found]
        parts = list(zip(self._states, rows, strict=True))
        names = ("Ts", *self._columns)
        picked = [np.concatenate([state.frame.values[name].take(some) for state, some in parts]) for name in names]
        return [values.take(self._order) for values in picked]

    def picked(self) -> list[np.ndarray]:
        stacked = next(iter(self._met.stacked(1 << 30) or ()))
        positions = stacked.positions.take(self._order)
        columns = [np.asarray(stacked.gather(name, positions)) for name in self._columns]
        return [stacked.times.take(positions), *columns]


def _of_routing(rng: np.random.Generator, rows: Rows) -> Iterator[Trick]:
    apart = rng.integers(-600, 600, rows(65_536))
    for count in (3, 12, 24):
        cuts = np.linspace(-500, 500, count).astype(int).tolist()
        name = f"serving: 65,536 differences compared with each of {count} cuts"
        yield Trick(name, partial(_searched, apart, cuts), partial(fan_out.routed, apart, cuts))
    count = rows(20_000)
    places = (
        rng.integers(0, 10**6, count),
        np.full(count, 7),
        rng.integers(0, 10**5, count),
        rng.permutation(count),
        np.full(count, 3),
    )
    yield Trick(
        "release: places of 20,000 rows sorted as one number",
        lambda: np.lexsort(places[::-1]),
        lambda: release._order(places),
    )


def _searched(differences: Ints, cuts: list[int]) -> tuple[Ints, list[int]]:
    classes = np.searchsorted(np.array(cuts), differences, side="right").astype(np.uint16)
    return np.argsort(classes, kind="stable"), [0, *np.bincount(classes, minlength=len(cuts) + 1).cumsum().tolist()]


def _of_expressions(rng: np.random.Generator, rows: Rows) -> Iterator[Trick]:
    count = rows(65_536)
    i, x = Column(0, "i", types.INT), Column(0, "x", types.DOUBLE)
    columns = {"i": pa.array(rng.integers(0, 1_000, count), pa.int32()), "x": pa.array(rng.random(count))}

    def look(column: Column) -> pa.Array:
        return columns[column.name]

    constants = [Literal(n, types.INT) for n in range(4)]
    one_by_one = compile_expr(Call("in", (i, *constants), types.BOOLEAN), {})
    as_set = comparing.is_in(constants, pa.int32(), [pa.scalar(n, pa.int32()) for n in range(4)])
    if as_set is not None:
        yield Trick(
            "branches: 65,536 rows IN 4 constants compared one by one",
            lambda: as_set(columns["i"]),
            lambda: one_by_one(look),
        )
    rare = Call("<", (x, Literal(0.01, types.DOUBLE)), types.BOOLEAN)
    mask, positions = conditions.compile_condition([rare], {}), conditions.compile_filter([rare], {})
    yield Trick(
        "conditions: 1 % of 65,536 rows as positions, not as a mask",
        lambda: np.flatnonzero(mask(look, count)),
        lambda: positions(look, count),
    )
    yield _at_once(i, look)
    other = pa.array(rng.random(count))
    less = comparing._of_floats("<")
    yield Trick(
        "comparing: NaN looked for in 65,536 numbers by their least",
        lambda: bool(pc.any(pc.is_nan(other)).as_py()),
        lambda: comparing._has_nan(other),
    )
    yield Trick(
        "comparing: 65,536 numbers < others, NaN minded only where there is one",
        lambda: pc.or_(pc.less(columns["x"], other), pc.and_not(pc.is_nan(other), pc.is_nan(columns["x"]))),
        lambda: less(columns["x"], other),
    )
    top = Literal(0.5, types.DOUBLE)
    above = comparing.comparison(Call(">", (x, top), types.BOOLEAN), types.DOUBLE)
    yield Trick(
        "comparing: 65,536 numbers > a constant as not <= it",
        lambda: pc.or_(pc.greater(columns["x"], pa.scalar(0.5)), pc.is_nan(columns["x"])),
        lambda: above(columns["x"], pa.scalar(0.5)),
    )
    money = pc.cast(pc.cast(pa.array(rng.integers(0, 10**7, count)), pa.decimal128(21, 2)), pa.decimal128(15, 2))
    yield Trick(
        "numbers: 65,536 DECIMAL(15, 2) to DOUBLE by a division, not as text",
        lambda: pc.cast(pc.cast(money, pa.string()), pa.float64()),
        lambda: numbers.plain_cast(money, pa.float64()),
    )
    readings = rng.random(rows(20_000)) * 100
    yield Trick(
        "rounding: 20,000 numbers as numbers, as text only near a half",
        lambda: rounding._as_written(readings, 2),
        lambda: rounding._rounded(readings, 2),
    )


def _at_once(i: Column, look: Callable[[Column], pa.Array]) -> Trick:
    """CASE WHEN i < 500 THEN i + 1 ELSE i - 1 END, where + and - may raise."""
    one = Literal(1, types.INT)
    test: Expr = Call("<", (i, Literal(500, types.INT)), types.BOOLEAN)
    parts = (test, Call("+", (i, one), types.INT), Call("-", (i, one), types.INT))
    case = compile_expr(Call("case", parts, types.INT), {})
    when, then, otherwise = (compile_expr(part, {}) for part in parts)

    def in_turn() -> pa.Array:
        count = len(look(i))
        return chosen(look, count, branches._cases([when], [then, otherwise]), pa.int32())

    return Trick("branches: CASE of 65,536 rows at once, in turn only if it raises", in_turn, lambda: case(look))


def _of_texts(rng: np.random.Generator, rows: Rows) -> Iterator[Trick]:
    whole = pc.cast(pa.array(rng.integers(-(10**9), 10**9, rows(20_000))), pa.string())
    yield Trick(
        "number_texts: 20,000 whole numbers of the usual form",
        lambda: numbers.exact_to_integer(number_texts._integers(strings.unblanked(whole)), pa.int64()),
        lambda: number_texts.read_integers(whole, pa.int64()),
    )
    real = pc.cast(pa.array(rng.random(rows(20_000)) * 100), pa.string())
    yield Trick(
        "number_texts: 20,000 real numbers of the usual form",
        lambda: number_texts._reals(strings.unblanked(real), pa.float64()),
        lambda: number_texts.read_reals(real, pa.float64()),
    )
    yield Trick(
        "strings: upper of 20,000 ASCII texts",
        lambda: pa.array([text.upper() for text in whole.to_pylist()]),
        lambda: strings.PLAIN["upper"](whole),
    )


def _of_files(rng: np.random.Generator, rows: Rows, place: Path) -> Iterator[Trick]:
    small, store = _segment(rng, rows(1_000), 100), FileStore(Files.at(place))
    yield Trick(
        "store: 1,000 rows written and left in memory, not mapped",
        lambda: (store.keep(small), store._opened(store.name(small), small))[1].rows,
        lambda: store.keep(small).rows,
    )
    paths = [place / f"{number}.bin" for number in range(16)]

    def written() -> list[str]:
        for path in paths:
            path.write_bytes(b"x" * 100_000)
        return [str(path) for path in paths]

    def one_after_the_other() -> None:
        for path in written():
            sync_paths([path])

    name = "files: 16 files of 100 kB synced together"
    yield Trick(name, one_after_the_other, lambda: sync_paths(written()), time.perf_counter)
