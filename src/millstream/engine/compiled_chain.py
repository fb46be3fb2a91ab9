"""A chain's compiled plan: its queries' expressions, and which units segments make.

It holds no rows. A changed plan is compiled again between batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from millstream.engine.arrow import Ints
from millstream.engine.equalities import Equalities, equal_columns
from millstream.engine.fan_out import FanOut
from millstream.engine.on_disk import Piece
from millstream.engine.pairs import Conditions, MemberRun, Pairs, Source, building
from millstream.engine.segment import Segment
from millstream.engine.shared_bounds import find_shared_bounds
from millstream.engine.units import Unit, needed
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, Chain, Condition, Member, Slice
from millstream.plan.statistics import in_pool

Hulls = Mapping[tuple[int, int], Interval]
"""For every two positions i and j, the interval that contains T_j - T_i of all results."""


class CompiledChain:
    """`since` is the first batch whose rows a query may see; units of earlier batches never serve it."""

    def __init__(self, chain: Chain, functions: Mapping[str, Function], since: Mapping[str, int]) -> None:
        self.chain = chain
        self.members: dict[str, MemberRun] = {}
        for member in chain.members:
            with building([member.name]):
                self.members[member.name] = MemberRun(member, functions, since.get(member.name, 0))
        positions = range(len(chain.streams))
        self.conditions = [Conditions(functions, owners_at(chain.members, one)) for one in positions]
        with building(self.members):
            self._shared_bounds = find_shared_bounds(chain.members, functions)
            self._equalities = [Equalities(walk[0].checked, functions, len(positions)) for walk in chain.walks]
        self.equal = [equal_columns(chain, one) for one in positions]
        self._first_batches = {
            piece.interval: min(self.members[name].since for name in piece.queries) for piece in chain.slices
        }
        self._slice_of: dict[Interval, Slice] = {piece.interval: piece for piece in chain.slices}
        self._fan_outs: dict[tuple[Interval, int, int], FanOut] = {}
        self._hulls = {piece.interval: _hulls(chain, piece) for piece in chain.slices if not chain.is_pairwise}
        self.youngest = max((member.since for member in self.members.values()), default=0)
        """The first batch whose rows all queries may see."""

    def since(self) -> dict[str, int]:
        """The first batch whose rows each query may see."""
        return {name: member.since for name, member in self.members.items()}

    def units(
        self, probe: Piece, at: int, seen: Sequence[Sequence[Piece]], only: Slice | None = None
    ) -> Iterator[Unit[Piece]]:
        """The units of a probing segment with the segments it sees at the other positions: one per slice that may
        have pairs for a query that may see them; of two streams, one per slice and segment.
        """
        slices = self.chain.slices if only is None else (only,)
        intervals = [piece.interval for piece in slices if self._first_batches[piece.interval] <= probe.batch]
        if not self.chain.is_pairwise:
            yield from self._walks(probe, at, seen, intervals)
            return
        for state in seen[0]:
            low, high = needed(probe, at, state)
            for interval in intervals if low < high else ():
                if interval.lo < high and low < interval.hi:
                    yield Unit(probe, at, ((state,),), interval)

    def _walks(
        self, probe: Piece, at: int, seen: Sequence[Sequence[Piece]], intervals: Sequence[Interval]
    ) -> Iterator[Unit[Piece]]:
        """Segments out of reach of the probing one are left out; without any at some position there are no results."""
        others = [position for position in range(len(self.chain.streams)) if position != at]
        for interval in intervals:
            hulls = self.hulls(interval)
            lookup = tuple(
                tuple(state for state in some if _in_reach(probe, state, hulls[at, position]))
                for position, some in zip(others, seen, strict=True)
            )
            if all(lookup):
                yield Unit(probe, at, lookup, interval)

    def cut(self, unit: Unit[Piece]) -> Iterator[Unit[Piece]]:
        """The parts of a unit made by another plan that this plan still needs."""
        for new in self.units(unit.probe, unit.at, unit.lookup):
            lo, hi = max(new.interval.lo, unit.interval.lo), min(new.interval.hi, unit.interval.hi)
            if lo < hi:
                yield Unit(unit.probe, unit.at, new.lookup, Interval(lo, hi))

    def slice_of(self, interval: Interval) -> Slice:
        """The slice in which the interval of a unit lies."""
        known = self._slice_of.get(interval)
        if known is None:
            known = next(piece for piece in self.chain.slices if piece.interval.covers(interval))
            self._slice_of[interval] = known
        return known

    def hulls(self, interval: Interval) -> Hulls:
        """How far apart the rows of a slice's results can be."""
        return self._hulls[self.slice_of(interval).interval]

    def access(self, position: int) -> str:
        """How the state at a position is searched."""
        return self.chain.access_at(position)

    def fan_out(self, piece: Slice, within: Interval, batch: int) -> FanOut:
        """Which queries get which pairs. It is the same for all pairs of a slice between the same cuts, once every
        query may see them.
        """
        between = piece.interval, bisect_right(piece.cuts, within.lo), bisect_left(piece.cuts, within.hi)
        known = self._fan_outs.get(between) if batch >= self.youngest else None
        if known is None:
            members = [self.members[name] for name in piece.queries if self.members[name].since <= batch]
            known = FanOut(within, piece.cuts[between[1] : between[2]], members, self._shared_bounds)
            if batch >= self.youngest:
                self._fan_outs[between] = known
        return known

    def pairs(self, probe: Segment, at: int, state: Source, probe_rows: Ints, state_rows: Ints) -> Pairs:
        """Matched rows of two streams whose keys are equal; codes may collide, so there the keys themselves are
        compared.
        """
        if at == LEFT:
            met = Pairs((probe, state), (probe_rows, state_rows), self.equal[at])
        else:
            met = Pairs((state, probe), (state_rows, probe_rows), self.equal[at])
        return self._equalities[at].kept(met)


def owners_at(members: Iterable[Member], position: int) -> dict[Condition, list[str]]:
    """The selections of queries at a position as its pool has them, each with the queries that have it."""
    found: dict[Condition, list[str]] = {}
    for member in members:
        found.setdefault(frozenset(map(in_pool, member.conditions[position])), []).append(member.name)
    return found


def _hulls(chain: Chain, piece: Slice) -> Hulls:
    """Within a slice no two rows are farther apart than the slice ends."""
    members = [member for member in chain.members if member.name in piece.queries]
    found = {}
    for i in range(len(chain.streams)):
        for j in range(len(chain.streams)):
            if i != j:
                bounds = [member.bound(i, j) for member in members]
                low, high = min(bound.lo for bound in bounds), max(bound.hi for bound in bounds)
                found[i, j] = Interval(max(low, 1 - piece.interval.hi), min(high, piece.interval.hi))
    return found


def _in_reach(probe: Piece, state: Piece, hull: Interval) -> bool:
    """Whether some rows of a state segment may match some of the probing one."""
    least, greatest = state.first - probe.last, state.last - probe.first
    return max(hull.lo, least, 1 - state.reach) <= min(hull.hi - 1, greatest)
