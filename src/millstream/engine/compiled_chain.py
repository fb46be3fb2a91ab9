"""A chain's compiled plan: its queries' expressions, how rows become segments, and which units two segments make.

It holds no rows. A changed plan is compiled again between batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, Ints
from millstream.engine.compaction import SPANS
from millstream.engine.fan_out import FanOut
from millstream.engine.gathered_rows import GatheredRows
from millstream.engine.intake import Intake, equal_columns
from millstream.engine.pairs import Conditions, MemberRun, Pairs, building, wide_columns
from millstream.engine.segment import Segment
from millstream.engine.shared_bounds import find_shared_bounds
from millstream.engine.units import Unit, needed
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT, Chain, Slice


class CompiledChain:
    """`since` is the first batch whose rows a query may see; units of earlier batches never serve it."""

    def __init__(
        self, chain: Chain, functions: Mapping[str, Function], since: Mapping[str, int], hash_bits: int = 64
    ) -> None:
        self.chain = chain
        self.members: dict[str, MemberRun] = {}
        for member in chain.members:
            with building([member.name]):
                self.members[member.name] = MemberRun(member, functions, since.get(member.name, 0))
        self.conditions = Conditions(functions, self.members.values())
        with building(self.members):
            self._shared_bounds = find_shared_bounds(chain.members, functions)
            self.intake = {side: Intake(chain, side, functions, self.conditions, hash_bits) for side in (LEFT, RIGHT)}
        self._equal = {side: equal_columns(chain, side) for side in (LEFT, RIGHT)}
        self._wide_keys = wide_columns(expr for key in chain.keys for expr in (key.left, key.right))
        self._first_batches = {
            piece.interval: min(self.members[name].since for name in piece.queries) for piece in chain.slices
        }
        self._slice_of: dict[Interval, Slice] = {piece.interval: piece for piece in chain.slices}
        self._fan_outs: dict[tuple[Interval, int, int], FanOut] = {}
        self.youngest = max((member.since for member in self.members.values()), default=0)
        """The first batch whose rows all queries may see."""
        # Where nothing is routed, shorter segments save nothing.
        self.spans = SPANS if any(piece.cuts for piece in chain.slices) else 1

    def since(self) -> dict[str, int]:
        """The first batch whose rows each query may see."""
        return {name: member.since for name, member in self.members.items()}

    def units(self, probe: Segment, states: Iterable[Segment], only: Slice | None = None) -> Iterator[Unit]:
        """For each state segment, one unit per slice that may have pairs for a query that may see them."""
        slices = self.chain.slices if only is None else (only,)
        seen = [piece.interval for piece in slices if self._first_batches[piece.interval] <= probe.batch]
        for state in states:
            low, high = needed(probe, state)
            for interval in seen if low < high else ():
                if interval.lo < high and low < interval.hi:
                    yield Unit(probe, state, interval)

    def cut(self, unit: Unit) -> Iterator[Unit]:
        """The parts of a unit made by another plan that this plan still needs."""
        for new in self.units(unit.probe, [unit.state]):
            lo, hi = max(new.interval.lo, unit.interval.lo), min(new.interval.hi, unit.interval.hi)
            if lo < hi:
                yield Unit(unit.probe, unit.state, Interval(lo, hi))

    def slice_of(self, interval: Interval) -> Slice:
        """The slice in which the interval of a unit lies."""
        known = self._slice_of.get(interval)
        if known is None:
            known = next(piece for piece in self.chain.slices if piece.interval.covers(interval))
            self._slice_of[interval] = known
        return known

    def access(self, side: str) -> str:
        """How the state of a side is searched."""
        return self.chain.access.left if side == LEFT else self.chain.access.right

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

    def pairs(self, probe: Segment, state: Segment | GatheredRows, probe_rows: Ints, state_rows: Ints) -> Pairs:
        """Matched rows whose keys are equal; hash codes may collide, so there the keys themselves are compared."""
        equal = self._equal[probe.side]
        met = Pairs(probe, state, probe_rows, state_rows, equal)
        if probe.side == RIGHT:
            met = Pairs(state, probe, state_rows, probe_rows, equal)
        if self.intake[LEFT].exact:
            return met
        kept = np.concatenate([self._equal_keys(some) for some in met.cut(self._wide_keys)])
        return met if kept.all() else met.at(np.flatnonzero(kept))

    def _equal_keys(self, pairs: Pairs) -> Bools:
        kept = np.ones(len(pairs), dtype=np.bool_)
        sides: Sequence[list[pa.Array]] = [self.intake[side].pair_keys(pairs) for side in (LEFT, RIGHT)]
        for left, right in zip(*sides, strict=True):
            equal = pc.equal(left, right)
            if pa.types.is_floating(left.type):
                equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
            kept &= np.asarray(equal.to_numpy(zero_copy_only=False), dtype=np.bool_)
        return kept
