"""Less work and less state: the filter that leaves rows or keys out before they are sent to slots, how far pools reach,
and what both mean for every query.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.column import Column

from millstream.model import duration
from millstream.model.duration import SECOND
from millstream.model.settings import Settings
from millstream.pipeline.holding import Lines, allowed, pools_held
from millstream.pipeline.layout import BAD, STREAM, Layout
from millstream.plan.completeness import BY_TIME, Completeness, Stretch
from millstream.plan.meter import ALL, BatchFacts, Demand, Shares
from millstream.plan.nodes import LEFT, RIGHT, Chain, Member, Plan, PoolName
from millstream.plan.overload import Overload
from millstream.plan.shrinking import Shrinking

if TYPE_CHECKING:
    from millstream.pipeline.manifest import Manifest
    from millstream.pipeline.slot import SlotReport

METRICS = "shed"
_PATIENT = 5
"""For so many batches in a row state may be above its memory before that is told."""
_KEPT = "kept"
_BITS = 44
"""The bits of a code that say whether a key is kept: not the leading ones, which say where it goes."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a batch keeps: these shares. The same `seed` chooses the same rows when a batch is tried again. Times beyond
    the `horizons` of their streams do not count as seen.
    """

    shares: Shares
    seed: int
    horizons: Mapping[str, int]

    def of_rows(self, rows: DataFrame, layout: Layout) -> DataFrame:
        """Leaves rows of streams out, one by one; those that did not parse stay, to be told of as such."""
        if not self.shares.rows:
            return rows
        share = sf.lit(1.0)
        for number, stream in enumerate(layout.streams):
            share = sf.when(sf.col(STREAM) == number, sf.lit(self.shares.rows.get(stream.name, 1.0))).otherwise(share)
        marked = rows.withColumn(_KEPT, (sf.rand(self.seed) < share) | sf.col(BAD).isNotNull())
        streams = {number: sf.col(STREAM) == number for number in range(len(layout.streams))}
        return self._without(marked, layout, streams)

    def of_keys(self, rows: DataFrame, layout: Layout, code: str, route: str, routes: Routes) -> DataFrame:
        """Leaves keys out: on every route, the same ones of all streams. Rows that are sent by no key stay."""
        if self.shares.keys >= 1:
            return rows
        low = sf.shiftrightunsigned(sf.shiftleft(sf.col(code), 64 - _BITS), 64 - _BITS)
        kept = (low < int(self.shares.keys * (1 << _BITS))) | sf.col(BAD).isNotNull()
        if routes.without_key:
            kept = kept | sf.col(route).isin(*routes.without_key)
        counting = {stream: sf.col(route) == number for number, stream in routes.counting.items()}
        return self._without(rows.withColumn(_KEPT, kept), layout, counting)

    def _without(self, marked: DataFrame, layout: Layout, streams: Mapping[int, Column]) -> DataFrame:
        metrics = []
        for number, mine in streams.items():
            stream = layout.streams[number]
            shed = mine & ~sf.col(_KEPT)
            micros = sf.unix_micros(sf.col(layout.place(number, stream.time)).cast("timestamp"))
            seen = shed & (micros <= self.horizons.get(stream.name, 1 << 62))
            metrics += [sf.count_if(shed).alias(f"n{number}"), sf.max(sf.when(seen, micros)).alias(f"t{number}")]
        return marked.observe(METRICS, *metrics).filter(sf.col(_KEPT)).drop(_KEPT)


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes on which rows are counted, with their streams, and those on which rows go everywhere, or to the one
    slot of a chain.
    """

    counting: Mapping[int, int]
    without_key: Sequence[int]


@dataclass(frozen=True, slots=True)
class Shed:
    """How many rows of each stream a batch has left out, and their greatest times."""

    rows: Mapping[str, int] = field(default_factory=dict)
    greatest: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, observed: Mapping[str, Any], layout: Layout) -> Shed:
        rows, greatest = {}, {}
        for number, stream in enumerate(layout.streams):
            if observed.get(f"n{number}"):
                rows[stream.name] = int(observed[f"n{number}"])
                if observed.get(f"t{number}") is not None:
                    greatest[stream.name] = int(observed[f"t{number}"])
        return cls(rows, greatest)


NOTHING = Shed()


class Shedder:
    """Decides what is shed and how far pools reach, and keeps count, where the settings ask for it; else all rows are
    kept.
    """

    def __init__(self, settings: Settings, saved: Mapping[str, Any]) -> None:
        self._shrinks = settings.memory_short == "shrink"
        self.is_on = self._shrinks or settings.overload != "later"
        self.memory = settings.memory if self._shrinks else 0
        self._shrinking = Shrinking()
        self._above = 0
        self.short = ""
        """Why state does not keep to its memory though pools are cut short; empty where it does."""
        self._lines = Lines(saved.get("gone_before_us", {}))
        self._overload = Overload(settings.overload, settings.overload_after / SECOND)
        self._rows: dict[str, int] = dict(saved.get("rows", {}))
        self._by_keys = settings.overload == "shed_keys" if settings.overload != "later" else bool(saved.get("by_keys"))
        self._completeness = Completeness(by_keys=self._by_keys, counted=saved.get("counted", {}))

    def filter(self, batch: int, horizons: Mapping[str, int]) -> Filter | None:
        """What the next batch leaves out; None where it keeps all."""
        if not self.is_on or self._overload.shares.is_all:
            return None
        return Filter(self._overload.shares, batch, horizons)

    @property
    def reaches(self) -> dict[PoolName, int]:
        """How far pools reach that are cut short, in microseconds."""
        return {pool: int(seconds * SECOND) for pool, seconds in self._shrinking.reaches.items()}

    @property
    def shares(self) -> Shares:
        return self._overload.shares if self.is_on else ALL

    def count(
        self, plan: Plan, reports: Sequence[SlotReport], shed: Shed, before: Mapping[str, int], after: Mapping[str, int]
    ) -> None:
        """Counts what a batch has left out."""
        for stream, rows in shed.rows.items():
            self._rows[stream] = self._rows.get(stream, 0) + rows
        if not self._counts:
            return
        least: dict[str, int] = {}
        kept: dict[str, int] = {}
        for report in reports:
            for stream, first in report.least.items():
                least[stream] = min(first, least.get(stream, first))
            for stream, rows in report.rows_in.items():
                kept[stream] = kept.get(stream, 0) + rows
        stretches = {}
        for stream in {*kept, *shed.rows}:
            came, last = kept.get(stream, 0) + shed.rows.get(stream, 0), after.get(stream)
            if not came or last is None:
                continue
            first = max(least.get(stream, last), before.get(stream, least.get(stream, last)))
            share = self.shares.keys if not self.shares.rows else kept.get(stream, 0) / came
            stretches[stream] = Stretch(min(first, last), last, came, share)
        members = [member for chain in plan.chains for member in chain.members]
        # Without a key there are no keys that could be left out.
        keyless = {one.name for chain in plan.chains if not chain.keys for one in chain.members}
        self._lines.cut(self.reaches, reports)
        floors = self._lines.floors(plan, reports) if self._lines.lines else {}
        self._completeness.saw(stretches, members, keyless if self._by_keys else (), floors)

    @property
    def _counts(self) -> bool:
        """Whether it is counted what queries miss: what was shed or cut once is missing for ever, whatever is set
        later.
        """
        return self.is_on or self._misses

    @property
    def _misses(self) -> bool:
        return bool(self._rows or self._lines.lines)

    def decide(self, facts: BatchFacts, plan: Plan) -> list[str]:
        """What the next batch keeps, by what the last one took; says what is news."""
        demands = [demand(chain, one) for chain in plan.chains for one in chain.members]
        told = [self._overload.saw(facts, demands)]
        if self._shrinks and self._shrinking.saw(facts, demands, self._overload.meter, self._overload.shares):
            told.append(self._told(plan))
        if self._shrinks:
            self._watch(facts)
        return told

    def _watch(self, facts: BatchFacts) -> None:
        """Rows that the watermark has not passed stay, however short pools reach."""
        held = sum(pool.nbytes for pool in facts.pools.values())
        self._above = self._above + 1 if held > facts.memory else 0
        self.short = (
            f"state takes {held / 1e6:,.2f} MB and may take {facts.memory / 1e6:,.2f} MB: pools cannot be cut shorter"
            " than the rows that the watermark has not passed yet; a larger memory or a shorter delay helps"
            if self._above >= _PATIENT
            else ""
        )

    def _told(self, plan: Plan) -> str:
        shown = self.shown_reaches(plan)
        if not shown:
            return "all pools reach as far as queries need again: there is memory for them"
        return "memory is short: rows are kept " + ", ".join(
            f"for {duration.text(int(seconds) * SECOND)} of {title}" for title, seconds in shown.items()
        )

    def shown_reaches(self, plan: Plan) -> dict[str, float]:
        """The pools that are cut short, as a user reads them, with the seconds they reach."""
        found, needed = {}, {pool.name: max((lane.reach for lane in pool.lanes), default=0) for pool in plan.pools}
        for pool in plan.pools:
            reach = self.reaches.get(pool.name)
            if reach is not None and reach < needed[pool.name]:
                found[pool.title] = reach / SECOND
        return found

    def completeness(self) -> dict[str, float]:
        """The estimated share of each query's results that is there; empty where nothing was ever shed or cut."""
        return self._completeness.shares() if self._misses else {}

    @property
    def how(self) -> str:
        """How that has been estimated; empty where nothing was ever shed or cut."""
        return "; ".join(([self._completeness.how] if self._rows else []) + ([BY_TIME] if self._lines.lines else []))

    def to_json(self) -> dict[str, Any]:
        if not self._counts:
            return {}
        return {
            "rows": self._rows,
            "by_keys": self._by_keys,
            "gone_before_us": self._lines.lines,
            "counted": self._completeness.to_json(),
            "completeness": {name: round(share, 4) for name, share in self.completeness().items()},
            "completeness_by": self.how,
        }


def demand(chain: Chain, member: Member) -> Demand:
    """A query as it counts among the others where work is short."""
    spans = [(0, member.reach(position)) for position in range(len(chain.streams))]
    if chain.is_pairwise:
        spans[LEFT] = member.interval.left_span or (0, 0)
        spans[RIGHT] = member.interval.right_span or (0, 0)
    return Demand(
        name=member.name,
        streams=tuple(stream.name for stream in member.streams),
        spans=tuple((max(low, 0) / SECOND, max(high, 0) / SECOND) for low, high in spans),
        weight=member.query.weight,
        pools=chain.pools,
    )


def facts(
    reports: Sequence[SlotReport],
    shed: Shed,
    manifest: Manifest,
    plan: Plan,
    *,
    memory: int,
    seconds: float,
    interval: float,
    event_seconds: float,
) -> BatchFacts:
    """A batch as the decision about the next one needs it. `memory` is that of an executor; 0 is no limit."""
    slowest = max(reports, key=lambda report: sum(report.seconds.values()))
    kept: dict[str, int] = {}
    given: dict[str, int] = {}
    for report in reports:
        for stream, rows in report.rows_in.items():
            kept[stream] = kept.get(stream, 0) + rows
        for (query, _), rows in report.served.items():
            given[query] = given.get(query, 0) + rows
    rows_of = {stream: kept.get(stream, 0) + shed.rows.get(stream, 0) for stream in {*kept, *shed.rows}}
    for_pairs = slowest.seconds.get("write", 0.0) + slowest.measured.steps.spent.get("emit", 0) / 1e9
    waiting = [arrived for batch, arrived in manifest.arrived.items() if batch < manifest.batch]
    return BatchFacts(
        seconds=seconds,
        interval=interval,
        rows=rows_of,
        kept=kept,
        given=given,
        pairs=sum(one.pairs for report in reports for one in report.measured.pairs.values()),
        for_pairs=min(for_pairs / max(seconds, 1e-6), 1.0),
        event_seconds=event_seconds,
        pools=pools_held(plan, reports, manifest.greatest),
        memory=allowed(memory, reports) if memory else inf,
        waited=max(time.time() - min(waiting) / 1e6 - seconds, 0.0) if manifest.deferred and waiting else 0.0,
    )
