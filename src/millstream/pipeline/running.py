"""A running pipeline: Spark calls it with every batch, and heartbeats run batches without rows, until it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.errors import BatchFailed, PipelineFailed, QueryFailed, listing
from millstream.pipeline.arrivals import arrived
from millstream.pipeline.causes import first_cause
from millstream.pipeline.checkpoint import refused
from millstream.pipeline.control import Control
from millstream.pipeline.delivery import Delivery
from millstream.pipeline.directory import Directory
from millstream.pipeline.late_watch import LateWatch
from millstream.pipeline.manifest import StagedFile
from millstream.pipeline.progress import BatchProgress, progress
from millstream.pipeline.recovery import prepare, tidy
from millstream.pipeline.sinks import left_over
from millstream.pipeline.status import StatusFile
from millstream.pipeline.step import CommittedBatch, Stepper

_BREATH = 0.02
_WAITING = "Waiting for"
"""The prefix of Spark's status while no source has rows: it waits for data or for the next trigger."""
_TRIES = 3
"""How often a batch is tried that fails without a query to blame."""


class _Stopping(Exception):
    """Refuses a batch of Spark's while the run stops: returning would tell Spark that the batch is done."""


class Running:
    """One run, from recovery to its stop. Only one batch is processed at a time."""

    def __init__(
        self,
        spark: SparkSession,
        directory: Directory,
        control: Control,
        stepper: Stepper,
        on_batch: Callable[[BatchProgress], None],
        tell: Callable[[str], None],
    ) -> None:
        self._spark, self._directory = spark, directory
        self._control, self._stepper = control, stepper
        self._on_batch, self._tell = on_batch, tell
        self._delivery = Delivery(spark, directory.location, tell)
        self._query: StreamingQuery | None = None
        self._beat: threading.Thread | None = None
        self._step_lock = threading.RLock()
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._started = now()
        self._watch, self._status = LateWatch(directory.location), StatusFile(directory)
        self._last_step = 0.0
        self._last_watermarks: Mapping[Any, int] = {}
        self._is_short = False

    def launch(self, source: DataFrame, *, available_now: bool) -> None:
        """Starts Spark's query: over the input that is there, or continuously."""
        self._use()
        settings = self._control.planned().script.settings
        writer = source.writeStream.foreachBatch(self._on_rows).option("checkpointLocation", self._directory.checkpoint)
        writer = (
            writer.trigger(availableNow=True)
            if available_now
            else writer.trigger(processingTime=f"{settings.trigger} microseconds")
        )
        try:
            self._query = writer.start()
        except PySparkException as error:
            told = refused(self._directory.checkpoint, str(error))
            raise told or PipelineFailed(str(error).split("\n", 1)[0]) from None
        if not available_now:
            self._beat = threading.Thread(target=self._heartbeats, name="millstream-heartbeats", daemon=True)
            self._beat.start()

    def finish(self) -> None:
        """Waits until the input that was there is read, then finishes deferred work."""
        if self._query is not None:
            with suppress(PySparkException):  # raised below, with a better message
                while self._query.isActive and not self._stopping.is_set():
                    self._query.awaitTermination(1)
        self._raise_error()
        with self._step_lock:
            while self._stepper.manifest.owing and not self._stopping.is_set():
                self._step(None, None)  # results that wait for the disk come batch by batch
            if not self._stopping.is_set():
                self._step(None, None, finish=True)
            self._wait_for_sinks()

    def wait(self, seconds: float | None) -> bool:
        """Waits until the run ends or the time is over; whether it has ended. Raises the error that ended it."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self._query is not None and self._query.isActive:
            if self._stopping.wait(0.1):
                break
            if deadline is not None and time.monotonic() >= deadline:
                return False
        with self._step_lock:  # the current batch is done
            self._raise_error()
        return True

    @property
    def is_active(self) -> bool:
        """Whether it is still reading and has not been asked to stop."""
        try:
            return self._query is not None and self._query.isActive and not self._stopping.is_set()
        except (Py4JError, OSError):  # Spark is gone
            return False

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self) -> None:
        """Finishes the current batch, then stops."""
        self._stopping.set()
        with self._step_lock:
            pass
        if self._query is not None:
            with suppress(PySparkException, Py4JError, OSError):  # a signal to all processes may have ended Spark
                self._query.stop()
            self._query = None
        if self._beat is not None and self._beat is not threading.current_thread():
            self._beat.join()
            self._beat = None

    def recover(self) -> None:
        """Publishes the last batch, delivers it to its sinks, and deletes files of uncommitted batches. It is
        idempotent.
        """
        last, targets = self._stepper.manifest, self._control.targets().values()
        late = [f"{self._directory.location}/late/{stream.name}" for stream in self._control.planned().script.streams]
        prepare(self._directory, [*(target.folder for target in targets), *late], self._tell)
        self._stepper.recover()
        tidy(self._directory, last, targets, self._control.sinks, self._tell)
        self._delivery.take_up(self._control.sinks, self._control.since())
        self._deliver()
        for query in left_over(last.outputs, self._control.sinks, self._directory.location):
            self._tell(f"rows of the last batch for the sink of {query} are left in outbox/{query}: it has none now")

    def _use(self) -> None:
        self._stepper.wanted_slots = self._control.slots() or self._stepper.slots
        self._stepper.use(self._control.planned(), self._control.since(), self._control.targets())

    def _on_rows(self, rows: DataFrame, spark_batch: int) -> None:
        """Called by Spark for each of its batches."""
        with self._step_lock:
            if spark_batch <= self._stepper.manifest.spark_batch:
                return
            try:
                self._catch_up()
                self._step(rows, spark_batch)
            except _Stopping:
                raise
            except BaseException as error:
                self._error = error
                raise

    def _catch_up(self) -> None:
        """Holds new rows back while there are more deferred units than the setting `backlog` allows."""
        limit = self._control.planned().script.settings.backlog
        while not self._stopping.is_set() and limit and self._stepper.manifest.deferred > limit:
            self._step(None, None, held_back=True)
        if self._stopping.is_set():
            raise _Stopping

    def _step(
        self, rows: DataFrame | None, spark_batch: int | None, *, finish: bool = False, held_back: bool = False
    ) -> None:
        before = self._control.since()
        if self._control.change(self._stepper.manifest.batch + 1):
            self._tell_unfinished(before)
            self._use()
        came = began = now()
        if spark_batch is not None:
            came = arrived(self._directory.checkpoint, spark_batch, self._started, began)
        tries = 0
        while True:
            try:
                done = self._stepper.step(
                    rows,
                    spark_batch=spark_batch,
                    statements=self._control.in_force.count,
                    now=began,
                    arrived=came,
                    finish=finish,
                )
                break
            except QueryFailed as failure:
                self._fail(failure)
            except BatchFailed as failure:
                tries += 1
                self._tell(f"batch {self._stepper.manifest.batch + 1} failed, try {tries} of {_TRIES}: {failure}")
                if tries == _TRIES:
                    raise PipelineFailed(f"a batch failed {tries} times, and no query is to blame: {failure}") from None
        self._last_step, self._last_watermarks = time.monotonic(), done.watermarks
        began_delivery = time.monotonic()
        self._hand_over(done.manifest.batch, done.manifest.outputs)
        delivered = time.monotonic() - began_delivery
        if done.adaptation:
            self._tell(f"batch {done.manifest.batch}: {done.adaptation}")
        if done.short and not self._is_short:
            self._tell(f"batch {done.manifest.batch}: memory is too short for the limit: {done.short}")
        self._is_short = bool(done.short)
        self._report(done, held_back=held_back, delivered=delivered)
        if rows is not None:
            for news in self._stepper.decide(done, done.published - done.began + delivered):
                self._tell(f"batch {done.manifest.batch}: {news}")

    def _report(self, done: CommittedBatch, *, held_back: bool, delivered: float) -> None:
        """Tells of a batch, in the directory too, and of streams too many of whose rows cannot be used."""
        told, script = progress(done, held_back=held_back, delivered=delivered), done.plan.script
        for warning in self._watch.saw(
            script.streams,
            script.settings.warn_late,
            rows_in=told.rows_in,
            late=told.late,
            outputs=done.manifest.outputs,
            greatest=done.manifest.greatest,
        ):
            self._tell(f"warning: {warning}")
        told = replace(told, warnings=tuple(self._watch.warnings.values()))
        self._status.write(told, told.warnings)
        self._on_batch(told)

    def _tell_unfinished(self, before: Mapping[str, int]) -> None:
        """Says which queries end before all their results have been found."""
        after, manifest = self._control.since(), self._stepper.manifest
        ended = [name for name, since in before.items() if after.get(name) != since]
        if ended and (manifest.deferred or manifest.owing):
            what = [f"{manifest.deferred:,} deferred units"] if manifest.deferred else []
            what += [f"{manifest.owing:,} groups that owe results"] if manifest.owing else []
            told = f"{listing(ended)} ended before {' and '.join(what)} were done"
            self._tell(f"{told}: what these would have given is not found any more")

    def _hand_over(self, batch: int, outputs: Iterable[StagedFile]) -> None:
        """Delivers results to external sinks."""
        self._delivery.add(batch, outputs, self._control.sinks)
        self._deliver()

    def _deliver(self) -> None:
        """Gives sinks what waits for them; a query whose sink is not tried again ends with the next batch."""
        while True:
            try:
                self._delivery.run(self._control.sinks, self._control.owner)
                return
            except QueryFailed as failure:
                self._fail(failure)

    def _wait_for_sinks(self) -> None:
        while not self._stopping.is_set() and (pause := self._delivery.pause()) is not None:
            if not self._stopping.wait(pause):
                self._deliver()

    def _fail(self, failure: QueryFailed) -> None:
        if self._control.planned().script.settings.on_error == "stop":
            raise failure
        for query in failure.queries:
            self._control.fail(query, failure.cause, self._stepper.manifest.batch + 1)
            self._tell(f"query {query} is stopped: {failure.cause}")
        self._use()

    def _heartbeats(self) -> None:
        """Runs batches without rows, for deferred work, for changes, and for watermarks that advance when streams are
        idle.
        """
        interval = self._control.planned().script.settings.heartbeat / 1e6
        pause = min(max(interval, 0.05), 0.5)
        while not self._stopping.wait(_BREATH if self._stepper.manifest.deferred else pause):
            # The short pause before deferred work lets a batch with rows go first.
            quiet = time.monotonic() - self._last_step >= interval or self._stepper.manifest.deferred
            if not quiet or not self._step_lock.acquire(timeout=0.05):
                continue
            try:
                if not self._stopping.is_set() and self._error is None:
                    self._note_silence()
                    if self._has_work():
                        self._step(None, None)
                    if self._delivery.pause() == 0:
                        self._deliver()
            except BaseException as error:  # raised by `wait`
                self._error = error
                self._stopping.set()
            finally:
                self._step_lock.release()

    def _has_work(self) -> bool:
        manifest = self._stepper.manifest
        if manifest.deferred or manifest.owing or self._stepper.wanted_slots != self._stepper.slots:
            return True
        if manifest.batch and self._stepper.watermarks(self._control.planned()) != self._last_watermarks:
            return True
        return self._control.registry.is_asked()

    def _note_silence(self) -> None:
        """Tells the clocks of streams that Spark has just polled all sources without getting rows.

        Between batches Spark's status says what the last poll found; it polls every `trigger`.
        """
        script = self._control.planned().script
        if self._query is None or all(stream.idle is None for stream in script.streams):
            return
        status = self._query.status
        if not status["isDataAvailable"] and status["message"].startswith(_WAITING):
            self._stepper.had_nothing(now() - script.settings.trigger)

    def _raise_error(self) -> None:
        if self._error is not None and not isinstance(self._error, PySparkException | Py4JError):
            raise self._error
        broken: BaseException | None = self._error
        if broken is None and self._query is not None and not self._stopping.is_set():
            # Refusing a batch that Spark begins while the run stops is not a failure.
            broken = self._query.exception()
        if broken is not None:
            told = refused(self._directory.checkpoint, str(broken)) if not self._last_step else None
            raise told or PipelineFailed(first_cause(str(broken))) from None


def now() -> int:
    """The current time in microseconds since 1970."""
    return time.time_ns() // 1_000
