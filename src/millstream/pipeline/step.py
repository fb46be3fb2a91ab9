"""The batch step on the driver: slots run, one manifest commits, then results become visible.

A batch whose manifest exists is never redone. One without a manifest never happened: whatever its slots wrote is
swept away and it starts again from the batch before.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from millstream.engine.chain_manifest import ChainManifest
from millstream.engine.files import Files
from millstream.engine.store import files_of
from millstream.engine.watermark import StreamClock, chain_watermark
from millstream.errors import QueryFailed
from millstream.model.functions import Function
from millstream.pipeline import manifest as manifests
from millstream.pipeline.directory import Directory
from millstream.pipeline.manifest import Clock, Manifest, SlotManifest
from millstream.pipeline.packing import packed
from millstream.pipeline.placement import Placement
from millstream.pipeline.results import Publisher, Target
from millstream.pipeline.routing import GROUPS, Router, Routing
from millstream.pipeline.slot import Order, Report, Work, run_slot
from millstream.plan.nodes import Plan

Signature = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """A batch that is committed, with all there is to tell of it."""

    manifest: Manifest
    plan: Plan
    reports: tuple[Report, ...]
    watermarks: Mapping[Signature, int]
    arrived: Mapping[int, int]
    began: float
    worked: float
    committed: float
    published: float


class Stepper:
    """Runs batches one after the other from the last committed one."""

    def __init__(
        self, spark: SparkSession, directory: Directory, slots: int, functions: Mapping[str, Function], now: int
    ) -> None:
        self._spark, self._directory, self._functions = spark, directory, dict(functions)
        self._run_name = uuid.uuid4().hex
        found = manifests.latest(directory.files.below("manifest"))
        self.manifest = found or Manifest(pipeline=uuid.uuid4().hex[:8], started=now, routing=_spread(slots))
        self._publisher = Publisher(f"{directory.place}/results")
        self._placement = Placement(spark, self.slots)
        self._work: Work | None = None
        self._router: Router | None = None
        self._packed = b""
        self.places: dict[int, str] = {}

    @property
    def slots(self) -> int:
        return max(self.manifest.routing) + 1

    def recover(self) -> None:
        """Finishes publishing the last batch and sweeps away what no committed batch names."""
        self._publisher.publish(self.manifest.outputs)
        sweep(self._directory.files.below("segments"), self.manifest)

    def use(self, plan: Plan, since: Mapping[str, int], targets: Mapping[str, Target]) -> None:
        """The plan from the next batch on."""
        late = f"{self._directory.place}/late"
        self._work = Work(uuid.uuid4().hex, plan, Routing.of(plan), dict(since), dict(targets), late, self._functions)
        self._packed = packed(self._work)
        routing = self._work.routing
        self._router = Router(routing, self.manifest.routing, self._functions) if routing.routes else None

    def step(
        self,
        rows: DataFrame | None,
        *,
        spark_batch: int | None,
        statements: int,
        now: int,
        arrived: int,
        finish: bool = False,
    ) -> Done:
        """One batch, with rows or without. Raises QueryFailed, with nothing changed, where a query's function does.

        `now` and `arrived`, when the rows came, are microseconds.
        """
        if self._work is None:
            raise RuntimeError("no plan is in use")
        began = time.time()
        plan, before = self._work.plan, self.manifest
        batch = before.batch + 1
        watermarks = self.watermarks(plan, now)
        order = Order(
            self._run_name,
            before.pipeline,
            self._directory.place,
            batch,
            watermarks,
            before.slots,
            self._work.version,
            self._packed,
            finish,
        )
        reports = self._run(order, rows)
        failed = [report for report in reports if report.failed]
        if failed:
            names = {name for report in failed for name in report.failed}
            raise QueryFailed(names, failed[0].error)
        self.places = {report.slot: report.place for report in reports}
        self._placement.balance(self.places)
        worked = time.time()
        after = Manifest(
            batch,
            before.pipeline,
            before.spark_batch if spark_batch is None else spark_batch,
            statements,
            before.started,
            before.routing,
            _clocks(before.clocks, reports, now),
            {report.slot: SlotManifest(report.token, report.chains) for report in reports},
            tuple(output for report in reports for output in report.outputs),
            _arrived(before.arrived, batch, arrived, reports),
        )
        manifests.commit(self._directory.files.below("manifest"), after)
        self.manifest = after
        committed = time.time()
        self._publisher.publish(after.outputs)
        _collect(self._directory.files.below("segments"), before, after)
        return Done(
            after,
            plan,
            tuple(reports),
            watermarks,
            {**before.arrived, batch: arrived},
            began,
            worked,
            committed,
            time.time(),
        )

    def watermarks(self, plan: Plan, now: int) -> dict[Signature, int]:
        """How far event time has come for every chain, by what batches up to now have shown."""
        found = {}
        for chain in plan.chains:
            clocks = {}
            for stream in chain.streams:
                known = self.manifest.clocks.get(stream.name)
                clocks[stream.name] = StreamClock(stream, known.greatest, known.heard) if known else StreamClock(stream)
            found[chain.signature] = chain_watermark(clocks.values(), now, self.manifest.started)
        return found

    def _run(self, order: Order, rows: DataFrame | None) -> list[Report]:
        if self._work is None:
            raise RuntimeError("no plan is in use")
        routed = None
        if rows is not None and self._router is not None:
            routed = self._router.routed(rows)
        return self._placement.run(routed, partial(run_slot, order))


def sweep(segments: Files, manifest: Manifest) -> None:
    """Deletes every segment file that the batch does not name."""
    needed = _files(manifest.segment_names())
    for name in segments.names():
        if name not in needed:
            segments.delete(name)


def _collect(segments: Files, before: Manifest, after: Manifest) -> None:
    for name in _files(before.segment_names() - after.segment_names()):
        segments.delete(name)


def _files(names: Iterable[str]) -> set[str]:
    return {file for name in names for file in files_of(name)}


def _spread(slots: int) -> tuple[int, ...]:
    """Every group's slot, as even as it goes."""
    return tuple(group * slots // GROUPS for group in range(GROUPS))


def _clocks(before: Mapping[str, Clock], reports: Iterable[Report], now: int) -> dict[str, Clock]:
    clocks = dict(before)
    for report in reports:
        for stream, greatest in report.greatest.items():
            known = clocks.get(stream)
            clocks[stream] = Clock(max(greatest, known.greatest if known else greatest), now)
    return clocks


def _arrived(before: Mapping[int, int], batch: int, now: int, reports: Iterable[Report]) -> dict[int, int]:
    """When batches came: this one, and those whose units still wait."""
    waiting = {batch}
    for report in reports:
        for chain in report.chains.values():
            waiting |= _waiting(chain)
    return {number: time for number, time in {**before, batch: now}.items() if number in waiting}


def _waiting(chain: ChainManifest) -> set[int]:
    batches = {entry.number: entry.batch for entry in chain.segments}
    return {batches[unit.probe] for unit in chain.ledger}
