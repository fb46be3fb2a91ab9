"""Units and the ledger: where two segments can have pairs, and counts that are those of a plain recount."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.keys import codes
from millstream.engine.segment import Lot, Segment, build
from millstream.engine.slice_paths import ages
from millstream.engine.units import Ledger, Task, Unit, needed
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT

SLICES = (Interval(-8, -3), Interval(-3, 0), Interval(0, 5), Interval(5, 8))
REACH = 8


def segment(number: int, times: list[int], batch: int = 1, reach: int = REACH) -> Segment:
    column = pa.array(times, pa.int64())
    rows = pa.RecordBatch.from_arrays([column.view(pa.timestamp("us", "UTC"))], names=["Ts"])
    return build(number, batch, Lot(reach), rows, "Ts", codes([column], len(times)))


times = st.lists(st.integers(0, 6), min_size=1, max_size=4)
reaches = st.integers(-2, 5)


@given(
    left=times,
    right=times,
    left_reach=reaches,
    right_reach=reaches,
    lo=st.integers(-7, 6),
    width=st.integers(1, 12),
    right_probes=st.booleans(),
)
def test_pairs_that_are_needed_lie_within(
    left: list[int], right: list[int], left_reach: int, right_reach: int, lo: int, width: int, right_probes: bool
) -> None:
    """A left tuple is needed by later ones that are less than its reach away; a right one by earlier ones."""
    sides = [segment(1, left, reach=left_reach), segment(2, right, reach=right_reach)]
    probe, state, at = (*sides[::-1], RIGHT) if right_probes else (*sides, LEFT)
    inside = {
        b - a for a in left for b in right if lo <= b - a < lo + width and b - a < left_reach and a - b < right_reach
    }
    low, high = needed(probe, at, state)
    assert all(low <= difference < high for difference in inside)
    if inside:
        within = Unit(probe, at, ((state,),), Interval(lo, lo + width)).within
        assert all(within.lo <= difference < within.hi for difference in inside)
        assert Interval(lo, lo + width).covers(within)
    assert low >= min(right) - max(left)
    assert high <= max(right) - min(left) + 1


def test_a_task_knows_its_ages_and_the_earliest_time_of_its_rows() -> None:
    probe, early, late = segment(9, [4, 6]), segment(1, [1, 9]), segment(2, [5, 7])
    lookups = (((early,),), ((late,),))
    task = Task(probe=probe, at=RIGHT, interval=Interval(-8, -3), lookups=lookups)
    assert (task.near, task.far) == (4, 9)
    assert task.first == 4
    assert Task(probe=probe, at=RIGHT, interval=Interval(0, 5), lookups=lookups[1:]).first == 5
    assert list(task.units()) == [Unit(probe, RIGHT, lookup, Interval(-8, -3)) for lookup in lookups]


@given(probe=times, steps=st.lists(st.lists(times, min_size=1, max_size=3), min_size=1, max_size=3))
def test_no_result_of_several_streams_is_earlier_than_its_task_says(
    probe: list[int], steps: list[list[list[int]]]
) -> None:
    lookup = tuple(tuple(segment(1, some) for some in step) for step in steps)
    task = Task(probe=segment(9, probe), at=1, interval=SLICES[2], lookups=(lookup,))
    of_steps = [[time for some in step for time in some] for step in steps]
    assert task.first == min(map(max, product(probe, *of_steps)))


class Recount:
    """A ledger, and beside it nothing but the list of its units."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.units: list[Unit] = []
        self.halves = False
        self.seen: set[tuple[int, int]] = set()

    def add(self, units: list[Unit]) -> None:
        """Units of a segment that is new or still on its way: one that is done gets no more."""
        on_their_way = {walk.name for walk in self.ledger.in_progress()}
        units = [unit for unit in units if _name(unit) in on_their_way or _name(unit) not in self.seen]
        self.seen |= {_name(unit) for unit in units}
        self.ledger.add(units)
        self.units += units

    def taken(self, units: list[Unit]) -> None:
        for unit in units:
            self.units.remove(unit)

    def check(self) -> None:
        ledger, left = self.ledger, self.units
        assert len(ledger) == len(left)
        assert Counter(map(repr, map(_told, ledger.units()))) == Counter(map(repr, map(_told, left)))
        assert ledger.segments() == {one.number for unit in left for one in (unit.probe, *_looked_up(unit))}
        assert ledger.memory() == sum({_name(unit): unit.probe.nbytes for unit in left}.values())
        assert {progress.name for progress in ledger.in_progress()} == set(map(_name, left))

    def check_earliest(self) -> None:
        """Apart, because the ledger tidies up when it is asked for it."""
        ledger, left = self.ledger, self.units
        found = {interval: (first, batch) for interval, first, batch in ledger.earliest()}
        wanted = {
            interval: min(
                (max(unit.probe.first, *(min(one.first for one in step) for step in unit.lookup)), unit.probe.batch)
                for unit in left
                if unit.interval == interval
            )
            for interval in {unit.interval for unit in left}
        }
        assert found.keys() == wanted.keys()
        for interval, place in wanted.items():
            # Of a task half done the ledger still tells the earliest time it had.
            assert found[interval] <= place if self.halves else found[interval] == place


def _name(unit: Unit) -> tuple[int, int]:
    return unit.probe.number, unit.at


def _looked_up(unit: Unit) -> list[Segment]:
    return [one for step in unit.lookup for one in step]


def _told(unit: Unit) -> tuple[object, ...]:
    return _name(unit), [[one.number for one in step] for step in unit.lookup], unit.interval


@st.composite
def additions(draw: st.DrawFn, count: int) -> list[list[Unit]]:
    """For each of some probing segments its units at two positions, in two goes of different slices."""
    states = [segment(100 + n, draw(times), draw(st.integers(1, 9))) for n in range(3)]
    # Two streams meet one segment at a time, more streams look up several at each step.
    lookups = draw(
        st.sampled_from([[((one,),) for one in states[:2]], [((states[0],), tuple(states[1:])), ((states[1],),) * 2]])
    )
    found: list[list[Unit]] = []
    late: list[list[Unit]] = []
    for number in range(count):
        probe = segment(number, draw(times), 10 + number)
        own = [
            Unit(probe, at, lookup, one) for at in (0, 2) for one in SLICES for lookup in lookups if draw(st.booleans())
        ]
        later = draw(st.sets(st.sampled_from(SLICES)))
        found.append([unit for unit in own if unit.interval not in later])
        late.append([unit for unit in own if unit.interval in later])
    return [*found, *late]


STEPS = ["add", "add", "add", "unit", "task", "task", "task", "progress", "rewrite", "all"]


@given(data=st.data())
def test_what_is_counted_is_what_a_recount_finds(data: st.DataObject) -> None:
    recount = Recount()
    coming = data.draw(additions(2))
    recount.add(coming.pop(0))
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=6, max_size=14)):
        walks = recount.ledger.in_progress()
        if step == "add" and coming:
            recount.add(coming.pop(0))
        elif step == "unit" and walks:
            unit = recount.ledger.take(data.draw(st.sampled_from(walks)))
            recount.taken([unit])
            recount.halves = True
        elif step == "task" and walks:
            recount.taken(list(recount.ledger.take_task(data.draw(st.sampled_from(walks))).units()))
        elif step == "progress" and walks:
            progress = data.draw(st.sampled_from(walks))
            while progress.tasks:
                recount.taken(list(recount.ledger.take_task(progress).units()))
        elif step == "rewrite":
            recount.ledger.rewrite(_halved)
            recount.units = [half for unit in recount.units for half in _halved(unit)]
            recount.halves = False
            coming = []
        elif step == "all":
            recount.taken(recount.ledger.take_all())
            recount.halves = False
            assert not recount.units
        recount.check()
        if data.draw(st.booleans()):
            recount.check_earliest()
    recount.check_earliest()


def _halved(unit: Unit) -> Iterator[Unit]:
    """What a plan leaves that has a cut in the middle of each slice, and none of the farthest."""
    if unit.interval.hi - unit.interval.lo < 2 or unit.interval.hi == SLICES[-1].hi:
        return
    middle = (unit.interval.lo + unit.interval.hi) // 2
    for lo, hi in ((unit.interval.lo, middle), (middle, unit.interval.hi)):
        yield Unit(unit.probe, unit.at, unit.lookup, Interval(lo, hi))


@given(data=st.data())
def test_a_segment_goes_from_near_to_far_and_meets_the_youngest_state_first(data: st.DataObject) -> None:
    first, later = data.draw(additions(1))
    ledger = Ledger()
    ledger.add(first)
    ledger.add(later)
    done = 0
    for progress in ledger.in_progress():
        own = [unit for unit in first + later if unit.at == progress.at]
        whole = sorted({unit.interval for unit in own}, key=lambda one: (*ages(one), one.lo))
        assert progress.whole == tuple(whole)
        found = []
        while progress.tasks:
            assert progress.whole[progress.stage] == progress.tasks[-1].interval
            found.append(ledger.take(progress))
        assert Counter(map(repr, map(_told, found))) == Counter(map(repr, map(_told, own))), "its own, once each"
        youngest = [(whole.index(unit.interval), -max(one.batch for one in _looked_up(unit))) for unit in found]
        assert youngest == sorted(youngest)
        done += len(found)
    assert done == len(first + later)


def test_fresh_walks_are_told_once() -> None:
    ledger, lookup = Ledger(), ((segment(1, [0]),),)
    probes = [segment(number, [0], batch=number) for number in (2, 3)]
    ledger.add(Unit(probe, LEFT, lookup, SLICES[2]) for probe in probes)
    assert [progress.probe for progress in ledger.fresh()] == probes
    assert not ledger.fresh()
    assert ledger.now == 3
    ledger.add([Unit(probes[0], LEFT, lookup, SLICES[1])])
    (progress,) = ledger.fresh()
    assert [task.interval for task in progress.tasks] == [SLICES[1], SLICES[2]], "the next one last"
    ledger.take_all()
    ledger.add([Unit(probes[1], LEFT, lookup, SLICES[1])])
    ledger.take_all()
    assert not ledger.fresh(), "what has gone is not new"


def test_units_added_to_a_segment_on_its_way_come_in_their_place() -> None:
    probe, states = segment(9, [0, 3]), [segment(number, [1, 2]) for number in (1, 2)]
    near, middle, far = Interval(0, 2), Interval(2, 4), Interval(4, 8)

    def units(interval: Interval) -> list[Unit]:
        return [Unit(probe, LEFT, ((state,),), interval) for state in states]

    ledger = Ledger()
    ledger.add(units(middle) + units(far))
    (progress,) = ledger.fresh()
    assert ledger.take_task(progress).interval == middle
    before = ledger.rewritten
    ledger.add(units(near))
    assert ledger.rewritten > before, "who has seen the old progress looks again"
    assert {interval for interval, *_ in ledger.earliest()} == {near, far}, "what is done is not open again"
    (progress,) = ledger.fresh()
    assert [ledger.take_task(progress).interval for _ in range(2)] == [near, far]
    assert not ledger.in_progress()


def test_a_segment_that_probes_from_two_positions_is_needed_until_both_are_done() -> None:
    """As in a stream joined with itself."""
    probe, state = segment(9, [0, 3]), segment(1, [1, 2])
    ledger = Ledger()
    ledger.add(Unit(probe, at, ((state,),), SLICES[2]) for at in (LEFT, RIGHT))
    assert {one.name: len(one.tasks) for one in ledger.fresh()} == {(9, LEFT): 1, (9, RIGHT): 1}
    left, right = sorted(ledger.in_progress(), key=lambda one: one.name)
    assert ledger.take_task(left).at == LEFT
    assert ledger.segments() == {9, 1}
    assert {interval for interval, *_ in ledger.earliest()} == {SLICES[2]}, "the other one waits there still"
    assert ledger.take(right) == Unit(probe, RIGHT, ((state,),), SLICES[2])
    assert not ledger.segments()
    assert not list(ledger.earliest())
    assert (len(ledger), ledger.memory()) == (0, 0)


def test_a_segment_stays_while_any_step_of_a_unit_looks_it_up() -> None:
    probe, one, two = segment(9, [0]), segment(1, [0]), segment(2, [0])
    ledger = Ledger()
    ledger.add([Unit(probe, 0, ((one,), (one, two)), SLICES[0]), Unit(probe, 0, ((two,), (two,)), SLICES[3])])
    (progress,) = ledger.in_progress()
    assert ledger.segments() == {9, 1, 2}
    ledger.take(progress)
    assert ledger.segments() == {9, 2}
    ledger.take(progress)
    assert not ledger.segments()
