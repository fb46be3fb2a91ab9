"""Random histories: queries over several streams that come and go between batches, and processes started anew."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, event
from hypothesis import strategies as st

from accesses import scanning
from many_streams import BUDGETS, MANY_CHOICES, SETTINGS, ManyCase, ManyQuery, Rows, cases
from measured import DECLARED, measured
from millstream.compile import compile_script
from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.batch import Results
from millstream.engine.engine import Engine
from millstream.engine.memory import MemoryLimit
from millstream.engine.probe import CHUNK
from millstream.engine.shard import Shard
from millstream.plan import Plan
from millstream.testing import naive
from sharing import sharing
from slots import Slots, Step

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
LONGEST = 6
"""The most batches of a history."""
SEEDS = st.one_of(st.just(DECLARED), st.integers(1, 2**20))
"""Every other batch is run by a plan that was chosen again."""
Found = dict[tuple[str, int], Rows]
"""The rows of each query by the batch it was added at."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a history is run: none of this may change what a query gets that stays to the end."""

    policy: str
    order: str
    budget: Budget | None
    chunk: int
    slots: int
    restarts: tuple[bool, ...]
    scans: tuple[int, ...] = (0,) * LONGEST
    """For each batch the streams that are scanned, as bits: access paths change while it runs."""
    seeds: tuple[int, ...] = (DECLARED,) * LONGEST
    """For each batch the statistics by which its plan is chosen again; then these say what is scanned."""


@dataclass(frozen=True, kw_only=True)
class History:
    """A case with the queries that run in each of its batches; the first query always does."""

    case: ManyCase
    running: tuple[frozenset[str], ...]

    def plan(self, number: int, way: Way) -> Plan:
        # A chain of several streams is cut into slices only where work may be deferred.
        budget = "0 seconds" if way.budget is None else "1 second"
        chosen = {**self.case.settings, "policy": way.policy, "order": way.order, "budget": budget}
        names = sorted(self.running[number])
        plan = compile_script(self.case.script(*names), settings=chosen)
        if way.seeds[number] != DECLARED:
            return measured(plan, way.seeds[number])
        scanned = [stream.name for place, stream in enumerate(self.case.streams) if way.scans[number] >> place & 1]
        return scanning(plan, scanned)

    def tables(self, number: int) -> dict[str, pa.Table]:
        return {stream.name: stream.table(self.case.batches[number][stream.name]) for stream in self.case.streams}

    def spans(self, name: str) -> Iterator[tuple[int, int]]:
        """From which batch to which a query ran."""
        first = None
        for number, names in enumerate((*self.running, frozenset[str]())):
            if name in names and first is None:
                first = number
            elif name not in names and first is not None:
                yield first, number
                first = None

    def began(self, name: str, number: int) -> int:
        return next(first for first, stop in self.spans(name) if first <= number < stop)


@st.composite
def histories(draw: st.DrawFn, most: int = 5, *, several_keys: bool = True) -> History:
    several_keys = several_keys and draw(st.sampled_from([False, False, True]))  # one key is what queries share most
    some = cases(most, several_keys=several_keys, batches=(3, LONGEST))
    case = draw(some if draw(st.booleans()) else sharing(batches=(3, LONGEST)))
    names = [query.name for query in case.queries]
    running = []
    for _ in case.batches:
        choices = draw(MANY_CHOICES)
        running.append(frozenset([names[0], *(name for name in names[1:] if choices.of((True, False, True)))]))
    return History(case=case, running=tuple(running))


@st.composite
def ways(draw: st.DrawFn) -> Way:
    choices = draw(MANY_CHOICES)
    return Way(
        policy=choices.of(SETTINGS["policy"]),
        order=choices.of(SETTINGS["order"]),
        budget=choices.of(BUDGETS),
        chunk=choices.of((CHUNK, 1, 7)),
        slots=choices.of((1, 2, 3)),
        restarts=tuple(choices.of((True, False)) for _ in range(LONGEST)),
        scans=draw(st.tuples(*[st.integers(0, 31)] * LONGEST)),
        seeds=draw(st.tuples(*[SEEDS] * LONGEST)),
    )


def on_engine(history: History, way: Way) -> Found:
    found: Found = {}
    number = 0

    def sink(name: str, rows: pa.RecordBatch) -> None:
        found.setdefault((name, history.began(name, number)), []).extend(rows.to_pylist())

    engine = Engine(history.plan(0, way), sink, chunk=way.chunk)
    for number in range(len(history.running)):
        if number:
            engine.change(history.plan(number, way))
        engine.feed(history.tables(number), way.budget)
    engine.close()
    return found


def on_slots(
    history: History,
    way: Way,
    count: int,
    *,
    memory: MemoryLimit | None = None,
    then: Callable[[Shard], Iterable[Results]] = lambda _: (),
    moves: Sequence[Sequence[tuple[int, int, int]]] = (),
) -> Found:
    """`then` is done with each shard after its batch, `moves` say which groups go from which slot to which."""
    found: Found = {}
    last = len(history.running) - 1
    with tempfile.TemporaryDirectory(prefix="millstream-") as place:
        slots = Slots(Path(place), count=count, chunk=way.chunk)
        for number in range(last + 1):
            step = Step(
                plan=history.plan(number, way),
                rows=history.tables(number),
                restarts=way.restarts[number],
                budget=way.budget or UNBOUNDED,
                finish=number == last,
                memory=memory,
                then=then,
                moves=moves[number] if number < min(last, len(moves)) else (),
            )
            deferred = slots.deferred
            event(f"restart with deferred units: {bool(deferred and step.restarts)}")
            for name, rows in slots.run(step).items():
                found.setdefault((name, history.began(name, number)), []).extend(rows)
    return found


def batches_of(query: ManyQuery, ids: Sequence[int], arrival: dict[str, dict[int, int]]) -> list[int]:
    return [arrival[stream][number] for stream, number in zip(query.streams, ids, strict=True)]


def check(history: History, way: Way, found: Found, *, spills: bool = False) -> None:
    """Nothing that a query may not see, nothing twice, and all that arrived while it ran."""
    case, arrival, end = history.case, history.case.arrival(), len(history.running)
    script = compile_script(case.script()).script
    at_once = way.order == "eager" and way.budget is None and not spills
    for query, declared in zip(case.queries, script.queries, strict=True):
        everything = [query.ids(row) for row in naive(declared, case.rows())]
        for first, stop in history.spans(query.name):
            rows = found.pop((query.name, first), [])
            event(f"added {'at first' if first == 0 else 'later'}, {'rows' if rows else 'no rows'}")
            got = Counter(query.ids(row) for row in rows)
            arrived = {ids: batches_of(query, ids, arrival) for ids in everything}
            may = {ids for ids, batches in arrived.items() if first <= max(batches) < stop}
            must = {ids for ids in may if min(arrived[ids]) >= first}
            assert got.keys() <= may, "a row that no arrival since its addition makes"
            assert not got or max(got.values()) == 1, "a row twice"
            if stop == end or at_once:
                assert got.keys() >= must, "a row between arrivals since its addition is missing"
    assert not found, "rows of a query that does not run"


def in_order(history: History, found: Found) -> dict[tuple[str, int], list[str]]:
    """What the queries got that run to the end, row by row."""
    return {name: list(map(repr, found[name])) for name in stayed(history, found)}


def stayed(history: History, found: Found) -> dict[tuple[str, int], Counter[str]]:
    """What the queries got that run to the end."""
    names = history.running[-1]
    return {
        (name, first): Counter(map(repr, rows))
        for (name, first), rows in found.items()
        if name in names and rows
        if first == history.began(name, len(history.running) - 1)
    }
