"""The batch step on the driver: slots run, one manifest commits, then results are published.

A batch whose manifest exists is never repeated. A batch without one is not committed: the files its slots wrote are
deleted, and it starts again from the batch before.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from millstream.engine.files import sync_paths
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.watermark import NEVER, StreamClock, chain_watermark
from millstream.errors import BatchFailed, QueryFailed
from millstream.model.duration import SECOND
from millstream.model.functions import Function
from millstream.pipeline import manifest as manifests
from millstream.pipeline.adapting import Adapting, short
from millstream.pipeline.checkpoint import Checkpoint
from millstream.pipeline.chosen import Change, Chosen
from millstream.pipeline.directory import Directory
from millstream.pipeline.durable import Folders
from millstream.pipeline.follows import check_follows, check_whole
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.pipeline.measuring import RunStatistics
from millstream.pipeline.moving import moved
from millstream.pipeline.packing import check_sendable, packed
from millstream.pipeline.placement import Placement
from millstream.pipeline.recovery import kept_manifests, sweep
from millstream.pipeline.registry import Registry
from millstream.pipeline.replanning import Replanner
from millstream.pipeline.results import Publisher, Target
from millstream.pipeline.routing import Router, Routing, check_codings, check_groups
from millstream.pipeline.shedding import NOTHING, Filter, Shed, Shedder, facts
from millstream.pipeline.slot import BatchRequest, SlotPlan, SlotReport, run_slot
from millstream.plan.costs import Calibration
from millstream.plan.nodes import Plan, Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """A committed batch, with everything that is reported about it."""

    manifest: Manifest
    plan: Plan
    reports: tuple[SlotReport, ...]
    watermarks: Mapping[Signature, int]
    arrived: Mapping[int, int]
    adaptation: str
    short: str
    """Why slots cannot keep to their memory; empty where they can."""
    began: float
    worked: float
    committed: float
    published: float
    shed: Shed = NOTHING
    completeness: Mapping[str, float] = field(default_factory=dict)
    reaches: Mapping[str, float] = field(default_factory=dict)
    completeness_by: str = ""
    came_in: float | None = None
    """In how many seconds its rows have come; None where that is not known, or it had none."""
    before: Mapping[str, int] = field(default_factory=dict)
    """The greatest times before it."""


class Stepper:
    """Runs batches one after the other from the last committed one."""

    def __init__(
        self,
        spark: SparkSession,
        directory: Directory,
        functions: Mapping[str, Function],
        *,
        groups: int,
        slots: int,
        calibration: Calibration | None = None,
    ) -> None:
        """`slots` counts in a new directory only."""
        check_sendable(functions)
        self._spark, self._directory, self._functions = spark, directory, dict(functions)
        self._run_name = uuid.uuid4().hex
        self._kept = kept_manifests(directory)
        found = self._kept[0] if self._kept else None
        self.manifest = found or Manifest(pipeline=uuid.uuid4().hex[:8], routing=_spread(slots, groups))
        check_groups(len(self.manifest.routing), groups, directory.location)
        self._committed: tuple[range, ...] = ()
        self._folders = Folders()
        self._publisher = Publisher(f"{directory.location}/results")
        self._placement = Placement(spark, self.slots)
        self._adapting: Adapting | None = None
        self.wanted_slots = self.slots
        self._slot_plan: SlotPlan | None = None
        self._router: Router | None = None
        self._packed = b""
        self._clocks: dict[str, StreamClock] = {}
        self.executors: dict[int, str] = {}
        self.statistics = RunStatistics.from_json(self.manifest.statistics)
        self._calibration = calibration
        self._replanner: Replanner | None = None
        self._shedder: Shedder | None = None
        self._chosen = Chosen()
        self._last_began: float | None = None

    @property
    def slots(self) -> int:
        return max(self.manifest.routing) + 1

    def recover(self) -> None:
        """Finishes publishing the last batches and deletes segment files that no kept manifest names."""
        for manifest in reversed(self._kept):
            self._publish(manifest)
        sweep(self._directory.files.below("segments"), self._kept)

    def use(self, plan: Plan, since: Mapping[str, int], targets: Mapping[str, Target]) -> None:
        """Sets the plan from the next batch on."""
        if self._replanner is None or self._shedder is None:
            self._chosen = Chosen.read(self._directory.files)
            adopted = bool(self._chosen.statistics)
            self._replanner = Replanner(plan.script.settings, self._calibration, adopted=adopted)
            self._shedder = Shedder(plan.script.settings, self.manifest.shed)
        plan = self._replanner.at_start(plan, self.statistics)
        self._choose(plan, self._chosen)
        late = f"{self._directory.location}/late"
        routing = Routing.of(plan)
        check_codings(self.manifest.codings, routing.codings(), self._directory.location)
        for stream in plan.script.streams:
            greatest = self.manifest.greatest.get(stream.name, NEVER)
            self._clocks.setdefault(stream.name, StreamClock(stream, greatest))
        self._slot_plan = SlotPlan(
            version=uuid.uuid4().hex,
            plan=plan,
            routing=routing,
            since=dict(since),
            targets=dict(targets),
            late=late,
            functions=self._functions,
        )
        self._packed = packed(self._slot_plan)
        if self._adapting is None:
            self._adapting = Adapting(plan.script.settings)
        self._route()

    def _route(self) -> None:
        """Sends rows as the table of the last batch says."""
        if self._slot_plan is None:
            raise RuntimeError("no plan is in use")
        routing = self._slot_plan.routing
        self._router = Router(routing, self.manifest.routing, self._functions) if routing.routes else None
        if self._placement.slots != self.slots:
            self._placement = Placement(self._spark, self.slots)

    def step(
        self,
        rows: DataFrame | None,
        *,
        spark_batch: int | None,
        statements: int,
        now: int,
        arrived: int,
        finish: bool = False,
    ) -> CommittedBatch:
        """Runs one batch, with rows or without. If it raises, nothing has changed: QueryFailed where queries are to
        blame, BatchFailed where none is.

        `now` and `arrived`, the time the rows arrived, are microseconds.
        """
        if self._slot_plan is None or self._adapting is None or self._shedder is None:
            raise RuntimeError("no plan is in use")
        began = time.time()
        plan, before = self._slot_plan.plan, self.manifest
        batch = before.batch + 1
        watermarks = self.watermarks(plan)
        future = plan.script.settings.future
        orders = self._adapting.orders(before.routing, self.wanted_slots, time.monotonic())
        request = BatchRequest(
            run=self._run_name,
            pipeline=before.pipeline,
            location=self._directory.location,
            batch=batch,
            watermarks=watermarks,
            horizons={name: clock.horizon(future) for name, clock in self._clocks.items()},
            committed=self._committed,
            plan_version=self._slot_plan.version,
            plan=self._packed,
            finish=finish,
            share=orders.share,
            orders=orders.slots,
            unfinished=before.unfinished,
            reaches=self._shedder.reaches,
        )
        reports, shed = self._run(request, rows, self._shedder.filter(batch, request.horizons))
        _raise_failures(reports)
        self.executors = {report.slot: report.executor for report in reports}
        self._placement.balance(self.executors)
        worked = time.time()
        greatest = _greatest(before.greatest, [*(report.greatest for report in reports), shed.greatest])
        came_in = None if rows is None else self._came_in(began)
        if rows is not None:
            counts = _counts(reports)
            self.statistics.learn(
                plan,
                [report.measured for report in reports],
                rows={name: counts.get(name, 0) for name in {*counts, *shed.rows}},
                before=before.greatest,
                after=greatest,
                seconds=came_in,
                shed=shed.rows,
            )
            self._shedder.count(plan, reports, shed, before.greatest, greatest)
        after = Manifest(
            batch=batch,
            pipeline=before.pipeline,
            spark_batch=before.spark_batch if spark_batch is None else spark_batch,
            statements=statements,
            routing=before.routing,
            greatest=greatest,
            watermarks=watermarks,
            codings=self._slot_plan.routing.codings(),
            slots={report.slot: SlotManifest(report.token, report.state) for report in reports},
            outputs=tuple(output for report in reports for output in report.outputs),
            arrived=_arrived(before.arrived, batch, arrived, reports),
            unfinished=_unfinished(reports),
            statistics=self.statistics.to_json(),
            shed=self._shedder.to_json(),
        )
        check_follows(before, after, plan)
        states, table, receivers = moved(plan, before.routing, orders.moves, reports)
        tokens = {report.slot: report.token for report in reports}
        slots = {slot: SlotManifest(tokens.get(slot, uuid.uuid4().hex[:10]), state) for slot, state in states.items()}
        after = replace(after, routing=table, slots=slots)
        check_whole(after, plan)
        after = self._commit(after, sync=plan.script.settings.sync == "on")
        stay = [report.task for report in reports if report.slot in slots and report.slot not in receivers]
        self._committed = _ranges(stay)
        self._adapting.learn(reports, table)
        if table != before.routing:
            self._route()
        if rows is not None:
            self._note_arrivals(after.greatest, {**_counts(reports), **shed.rows}, now)
        committed = time.time()
        self._publish(after)
        self._collect()
        return CommittedBatch(
            manifest=after,
            plan=plan,
            reports=tuple(reports),
            watermarks=watermarks,
            arrived={**before.arrived, batch: arrived},
            adaptation=orders.why,
            short=short(reports) or self._shedder.short,
            shed=shed,
            completeness=self._shedder.completeness(),
            reaches=self._shedder.shown_reaches(plan),
            completeness_by=self._shedder.how,
            began=began,
            worked=worked,
            came_in=came_in,
            before=before.greatest,
            committed=committed,
            published=time.time(),
        )

    def _came_in(self, began: float) -> float | None:
        """In how many seconds the rows of a batch have come: since the one before began."""
        last, self._last_began = self._last_began, began
        return None if last is None else max(began - last, 1e-3)

    def decide(self, done: CommittedBatch, seconds: float) -> list[str]:
        """Decides, after a batch with rows that took so many seconds in all, what is shed of the next one and whether
        another plan is used for it; says what is new.
        """
        if self._slot_plan is None or self._replanner is None or self._shedder is None:
            raise RuntimeError("no plan is in use")
        told = []
        if self._shedder.is_on and done.came_in:
            moved = [done.manifest.greatest[name] - first for name, first in done.before.items()]
            found = facts(
                done.reports,
                done.shed,
                done.manifest,
                done.plan,
                memory=self._shedder.memory,
                seconds=seconds,
                interval=done.came_in,
                event_seconds=sum(moved) / len(moved) / SECOND if moved else 0.0,
            )
            told += self._shedder.decide(found, done.plan)
        joined = sum(sum(report.measured.steps.spent.values()) for report in done.reports) / 1e9
        cost = joined / max(sum(_counts(done.reports).values()), 1)
        effect = self._replanner.effect(cost)
        if effect:
            self._choose(self._slot_plan.plan, self._chosen.with_effect(effect), again=False)
            told.append(effect)
        choice = self._replanner.look(self._slot_plan.plan, self.statistics, seconds)
        if choice is not None:
            self._slot_plan = replace(self._slot_plan, version=uuid.uuid4().hex, plan=choice.plan)
            self._packed = packed(self._slot_plan)
            self._replanner.changed(done.manifest.batch, cost)
            self._choose(choice.plan, self._chosen.with_change(Change(done.manifest.batch, choice.why)))
            told.append(choice.why)
        return [one for one in told if one]

    def _choose(self, plan: Plan, chosen: Chosen, *, again: bool = True) -> None:
        """Writes down what has chosen the plan in use; the statistics of now, where it was chosen again by these."""
        if again and self._replanner is not None:
            chosen = replace(chosen, statistics=self.statistics.to_json() if self._replanner.adopted else {})
        calibration = asdict(self._calibration or Calibration())
        self._chosen = replace(chosen, settings=asdict(plan.script.settings), calibration=calibration)
        self._chosen.write(self._directory.files)

    def _commit(self, after: Manifest, *, sync: bool) -> Manifest:
        """Commits once everything the batch relies on is durable and the directory is still held by this run."""
        files, before = self._directory.files, self.manifest
        marks = Checkpoint(files.below("spark")).marks(before, after.spark_batch)
        state = [files.path("segments")] if files.is_local else []
        if sync:
            sync_paths([*state, *self._folders.to_sync(after.outputs), *marks.to_sync])
        changed = after.statements != before.statements or not before.registry
        registry = Registry(files.below("registry")).checksum(after.statements) if changed else before.registry
        after = replace(after, offsets=marks.offsets, sources=marks.sources, registry=registry)
        self._directory.check_ours()
        manifests.commit(files.below("manifest"), after, sync=sync)
        self.manifest = after
        self._kept = [after, *self._kept]
        return after

    def _publish(self, manifest: Manifest) -> None:
        self._publisher.publish(manifest.outputs)
        self._folders.renamed(manifest.outputs)
        manifests.note_published(self._directory.files.below("manifest"), manifest.batch)

    def _collect(self) -> None:
        """Deletes the segments of manifests that are no longer kept, unless a kept one names them."""
        kept, gone = self._kept[: manifests.KEPT], self._kept[manifests.KEPT :]
        needed = {name for manifest in kept for name in manifest.segment_files()}
        segments = self._directory.files.below("segments")
        for name in {name for manifest in gone for name in manifest.segment_files()} - needed:
            segments.delete(name)
        self._kept = kept

    def watermarks(self, plan: Plan) -> dict[Signature, int]:
        """The watermark of every chain, from all batches so far. It never goes back, even when an idle stream has rows
        again after a restart: state below it is gone.
        """
        found = {}
        for chain in plan.chains:
            now = chain_watermark(self._clocks[stream.name] for stream in chain.streams)
            found[chain.signature] = max(now, self.manifest.watermarks.get(chain.signature, NEVER))
        return found

    def had_nothing(self, now: int) -> None:
        """All streams were polled at this time and had no rows."""
        for clock in self._clocks.values():
            clock.had_nothing(now)

    def _note_arrivals(self, greatest: Mapping[str, int], counts: Mapping[str, int], now: int) -> None:
        """Updates the clocks of all streams: a batch of Spark's polls every stream."""
        for name, clock in self._clocks.items():
            if counts.get(name):
                clock.saw(greatest.get(name, NEVER))
            else:
                clock.had_nothing(now)

    def _run(self, request: BatchRequest, rows: DataFrame | None, shed: Filter | None) -> tuple[list[SlotReport], Shed]:
        if self._slot_plan is None:
            raise RuntimeError("no plan is in use")
        routed = None
        if rows is not None and self._router is not None:
            routed = self._router.routed(rows, shed)
        reports = self._placement.run(routed, partial(run_slot, request), observe=shed is not None)
        if routed is None or shed is None:
            return reports, NOTHING
        return reports, Shed.of(self._placement.observed, self._slot_plan.routing.layout)


def _spread(slots: int, groups: int) -> tuple[int, ...]:
    """The slot of every partition group, spread evenly."""
    return tuple(group * slots // groups for group in range(groups))


def _ranges(numbers: Iterable[int]) -> tuple[range, ...]:
    """Numbers as the fewest ranges that hold them and no others."""
    found: list[range] = []
    for number in sorted(numbers):
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return tuple(found)


def _raise_failures(reports: Iterable[SlotReport]) -> None:
    """Raises the errors in reports; a report with an error is otherwise empty and must never be committed."""
    failed = [report for report in reports if report.error]
    names = {name for report in failed for name in report.failed}
    if names:
        raise QueryFailed(names, next(report.error for report in failed if report.failed))
    if failed:
        raise BatchFailed(failed[0].error)


def _greatest(before: Mapping[str, int], seen: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found = dict(before)
    for one in seen:
        for stream, greatest in one.items():
            found[stream] = max(greatest, found.get(stream, greatest))
    return found


def _counts(reports: Iterable[SlotReport]) -> dict[str, int]:
    total: dict[str, int] = {}
    for report in reports:
        for stream, count in report.rows_in.items():
            total[stream] = total.get(stream, 0) + count
    return total


def _arrived(before: Mapping[int, int], batch: int, now: int, reports: Iterable[SlotReport]) -> dict[int, int]:
    """When batches arrived: this one, those with deferred units, and all since the oldest with rows held back for
    order.
    """
    waiting = {batch}
    oldest = min((one.oldest_held for one in reports if one.oldest_held is not None), default=batch)
    for report in reports:
        waiting |= _waiting(report.state)
    return {number: time for number, time in {**before, batch: now}.items() if number in waiting or number >= oldest}


def _unfinished(reports: Iterable[SlotReport]) -> dict[Signature, int]:
    """For each chain the earliest time of a result row that a slot has deferred or owes."""
    found: dict[Signature, int] = {}
    for report in reports:
        for signature, first in report.unfinished.items():
            found[signature] = min(first, found.get(signature, first))
    return found


def _waiting(state: ShardManifest) -> set[int]:
    batches = {entry.number: entry.batch for entry in state.segments}
    return {batches[unit.probe] for chain in state.chains.values() for unit in chain.ledger}
