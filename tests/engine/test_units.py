"""Units and the ledger: where two segments can have pairs, and counts that are those of a plain recount."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.keys import codes
from millstream.engine.segment import Segment, build
from millstream.engine.slice_paths import ages
from millstream.engine.units import Ledger, Task, Unit, needed
from millstream.model.interval import Interval

SLICES = (Interval(-8, -3), Interval(-3, 0), Interval(0, 5), Interval(5, 8))
REACH = 8


def segment(number: int, side: str, times: list[int], batch: int = 1, reach: int = REACH) -> Segment:
    column = pa.array(times, pa.int64())
    rows = pa.RecordBatch.from_arrays([column.view(pa.timestamp("us", "UTC"))], names=["Ts"])
    return build(number, side, batch, reach, rows, "Ts", codes([column], len(times)))


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
    sides = [segment(1, "left", left, reach=left_reach), segment(2, "right", right, reach=right_reach)]
    probe, state = sides[::-1] if right_probes else sides
    inside = {
        b - a for a in left for b in right if lo <= b - a < lo + width and b - a < left_reach and a - b < right_reach
    }
    low, high = needed(probe, state)
    assert all(low <= difference < high for difference in inside)
    if inside:
        within = Unit(probe, state, Interval(lo, lo + width)).within
        assert all(within.lo <= difference < within.hi for difference in inside)
        assert Interval(lo, lo + width).covers(within)
    assert low >= min(right) - max(left)
    assert high <= max(right) - min(left) + 1


def test_a_task_knows_its_ages_and_the_earliest_time_of_its_rows() -> None:
    probe, states = segment(9, "left", [4, 6]), (segment(1, "right", [1, 9]), segment(2, "right", [5, 7]))
    task = Task(probe, Interval(-8, -3), states)
    assert (task.near, task.far) == (4, 9)
    assert task.first == 4
    assert Task(probe, Interval(0, 5), states[1:]).first == 5
    assert list(task.units()) == [Unit(probe, state, Interval(-8, -3)) for state in states]


class Recount:
    """A ledger, and beside it nothing but the list of its units."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.units: list[Unit] = []
        self.halves = False
        self.seen: set[int] = set()

    def add(self, units: list[Unit]) -> None:
        """Units of a segment that is new or still on its way: one that is done gets no more."""
        on_their_way = {walk.probe.number for walk in self.ledger.in_progress()}
        units = [unit for unit in units if unit.probe.number in on_their_way or unit.probe.number not in self.seen]
        self.seen |= {unit.probe.number for unit in units}
        self.ledger.add(units)
        self.units += units

    def taken(self, units: list[Unit]) -> None:
        for unit in units:
            self.units.remove(unit)

    def check(self) -> None:
        ledger, left = self.ledger, self.units
        assert len(ledger) == len(left)
        assert Counter(map(_told, ledger.units())) == Counter(map(_told, left))
        assert ledger.segments() == {one.number for unit in left for one in (unit.probe, unit.state)}
        assert ledger.memory() == sum({unit.probe.number: unit.probe.nbytes for unit in left}.values())
        assert {progress.probe.number for progress in ledger.in_progress()} == {unit.probe.number for unit in left}

    def check_earliest(self) -> None:
        """Apart, because the ledger tidies up when it is asked for it."""
        ledger, left = self.ledger, self.units
        found = {interval: (first, batch) for interval, first, batch in ledger.earliest()}
        wanted = {
            interval: min(
                (max(unit.probe.first, unit.state.first), unit.probe.batch)
                for unit in left
                if unit.interval == interval
            )
            for interval in {unit.interval for unit in left}
        }
        assert found.keys() == wanted.keys()
        for interval, place in wanted.items():
            # Of a task half done the ledger still tells the earliest time it had.
            assert found[interval] <= place if self.halves else found[interval] == place


def _told(unit: Unit) -> tuple[int, int, Interval]:
    return unit.probe.number, unit.state.number, unit.interval


@st.composite
def additions(draw: st.DrawFn, count: int) -> list[list[Unit]]:
    """For each of some probing segments its units with some states, in two goes of different slices."""
    states = [segment(100 + n, "right", draw(times), draw(st.integers(1, 9))) for n in range(2)]
    found: list[list[Unit]] = []
    late: list[list[Unit]] = []
    for number in range(count):
        probe = segment(number, "left", draw(times), 10 + number)
        own = [Unit(probe, state, one) for one in SLICES for state in states if draw(st.booleans())]
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
        yield Unit(unit.probe, unit.state, Interval(lo, hi))


@given(data=st.data())
def test_a_segment_goes_from_near_to_far_and_meets_the_youngest_state_first(data: st.DataObject) -> None:
    first, later = data.draw(additions(1))
    ledger = Ledger()
    ledger.add(first)
    ledger.add(later)
    whole = sorted({unit.interval for unit in first + later}, key=lambda one: (*ages(one), one.lo))
    found = []
    for progress in ledger.in_progress():
        assert progress.whole == tuple(whole)
        while progress.tasks:
            assert progress.whole[progress.at] == progress.tasks[-1].interval
            found.append(ledger.take(progress))
    assert len(found) == len(first + later)
    assert found == sorted(found, key=lambda unit: (whole.index(unit.interval), -unit.state.batch))


def test_fresh_walks_are_told_once() -> None:
    ledger, state = Ledger(), segment(1, "right", [0])
    probes = [segment(number, "left", [0], batch=number) for number in (2, 3)]
    ledger.add(Unit(probe, state, SLICES[2]) for probe in probes)
    assert [progress.probe for progress in ledger.fresh()] == probes
    assert not ledger.fresh()
    assert ledger.now == 3
    ledger.add([Unit(probes[0], state, SLICES[1])])
    (progress,) = ledger.fresh()
    assert [task.interval for task in progress.tasks] == [SLICES[1], SLICES[2]], "the next one last"
    ledger.take_all()
    ledger.add([Unit(probes[1], state, SLICES[1])])
    ledger.take_all()
    assert not ledger.fresh(), "what has gone is not new"


def test_units_added_to_a_segment_on_its_way_come_in_their_place() -> None:
    probe, states = segment(9, "left", [0, 3]), [segment(number, "right", [1, 2]) for number in (1, 2)]
    near, middle, far = Interval(0, 2), Interval(2, 4), Interval(4, 8)

    def units(interval: Interval) -> list[Unit]:
        return [Unit(probe, state, interval) for state in states]

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
