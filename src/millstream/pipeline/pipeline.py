"""`Pipeline`: the whole, from Python. It starts, changes, drains and stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.compile import compile_script
from millstream.errors import PipelineFailed, QueryFailed, ScriptError
from millstream.model.functions import Function
from millstream.model.stream import check_name
from millstream.pipeline.arrivals import arrived
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.progress import BatchProgress, progress
from millstream.pipeline.registry import unknown_query
from millstream.pipeline.results import read_results, sweep_staged
from millstream.pipeline.session import cores_of, make_session, session_for
from millstream.pipeline.sinks import Callback, deliver
from millstream.pipeline.sources import columns_of, united
from millstream.pipeline.step import Stepper
from millstream.plan import Calibration, Plan
from millstream.plan.explain import FORMATS

_MOST_SLOTS = 64
_BREATH = 0.02


class QueryHandle:
    """A query of a pipeline: its results so far, and a way to drop it."""

    def __init__(self, pipeline: Pipeline, name: str) -> None:
        self._pipeline, self.name = pipeline, name

    def results(self) -> pa.Table:
        """The rows of all committed batches."""
        return self._pipeline.results(self.name)

    def drop(self) -> None:
        self._pipeline.drop(self.name)


class Pipeline:
    """Runs queries over streams as one shared stream of work, with everything it keeps in `directory`.

    `on_batch` gets the progress of each committed batch, `tell` what a person should know.
    """

    def __init__(
        self,
        name: str,
        directory: str | Path | None = None,
        *,
        script: str = "",
        spark: SparkSession | None = None,
        functions: Mapping[str, Function] | None = None,
        settings: Mapping[str, str] | None = None,
        calibration: Calibration | None = None,
        on_batch: Callable[[BatchProgress], None] = lambda _: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        check_name("pipeline", name)
        self.name = name
        self.directory = Directory.at(directory or f"state/{name}")
        self._statements = [script.strip().rstrip(";")] if script.strip() else []
        self._frames: dict[str, DataFrame] = {}
        self._elsewhere: dict[str, tuple[tuple[str, str], ...]] = {}
        self._functions = dict(functions or {})
        self._settings = dict(settings or {})
        self._calibration = calibration
        self._on_batch, self._tell = on_batch, tell
        self._spark = spark
        self._callbacks: dict[str, Callback] = {}
        self._control: Control | None = None
        self._stepper: Stepper | None = None
        self._query: StreamingQuery | None = None
        self._beat: threading.Thread | None = None
        self._owned = ExitStack()
        self._step_lock = threading.RLock()
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._started = 0
        self._last_step = 0.0
        self._last_watermarks: Mapping[Any, int] = {}

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: str,
        delay: str = "0 seconds",
        idle: str | None = None,
        rate: float | None = None,
        keys: int | None = None,
    ) -> None:
        """Declares a stream that is a streaming DataFrame."""
        self._before_start("streams are declared")
        hints = {"time": time, "delay": delay, "idle": idle, "rate": rate, "keys": keys}
        given = ", ".join(f"{key} = '{_escaped(str(value))}'" for key, value in hints.items() if value is not None)
        columns = ", ".join(f'"{_doubled(column)}" {kind}' for column, kind in columns_of(frame))
        self._statements.append(f"CREATE STREAM {name} ({columns}) WITH ({given})")
        self._frames[name] = frame

    def read(self, name: str, format: str, **options: str) -> None:  # noqa: A002
        """Reads a declared stream from somewhere else than its declaration says."""
        self._before_start("sources are named")
        self._elsewhere[name] = (("format", format), *options.items())

    def sql(self, script: str) -> None:
        """Adds statements: CREATE STREAM, CREATE QUERY, SET."""
        self._before_start("statements are given")
        self._statements.append(script.strip().rstrip(";"))

    def query(self, name: str, select: str, *, sink: Callback | None = None, **options: str) -> QueryHandle:
        """Adds a query; while the pipeline runs, from the next batch on. `sink` gets (batch, rows) of each commit."""
        given = ", ".join(f"{key} = '{_escaped(value)}'" for key, value in options.items())
        statement = f"CREATE QUERY {name}{f' WITH ({given})' if given else ''} AS {select.strip().rstrip(';')}"
        if self._control is None:
            self._statements.append(statement)
        else:
            if name in self._control.in_force.queries:
                raise ScriptError(f'query "{name}" is there already', "names differ", "Drop it first, or rename it.")
            self._control.compile(f"{self._control.in_force.text()}{statement};")
            self._control.registry.ask("add", name, statement)
        if sink is not None:
            self._callbacks[name] = sink
            if self._control is not None:
                self._control.callbacks[name] = sink
        return QueryHandle(self, name)

    def drop(self, name: str) -> None:
        """Ends a query with the next batch. Its results stay."""
        if self._control is None:
            raise ScriptError(f'query "{name}" is not running', "running queries are dropped", "Start the pipeline.")
        if name not in self._control.in_force.queries:
            raise unknown_query(name, self._control.in_force.queries)
        self._control.registry.ask("drop", name)

    def queries(self) -> list[str]:
        """The names of the queries in force."""
        return [query.name for query in self.plan().script.queries]

    def plan(self) -> Plan:
        """The shared plan in force, or the one that would be."""
        if self._control is not None:
            return self._control.planned()
        return compile_script(self._script(), functions=self._functions, settings=self._settings)

    def explain(self, style: str = "text") -> str:
        """The shared plan in words, as JSON or for Graphviz."""
        return FORMATS[style](self.plan())

    def results(self, name: str) -> pa.Table:
        """What a query has given in all committed batches."""
        if self._control is None:
            raise ScriptError("the pipeline has not been started", "results are those of its runs", "Start it.")
        queries = self._control.queries()
        if name not in queries:
            raise unknown_query(name, queries)
        return read_results(self._control.targets()[name], queries[name])

    def start(self) -> None:
        """Begins to read; returns at once."""
        self._open()
        self._launch(available_now=False)
        self._beat = threading.Thread(target=self._heartbeats, name=f"millstream-{self.name}", daemon=True)
        self._beat.start()

    def drain(self) -> None:
        """Processes what is there, finishes what was put off, and stops."""
        try:
            self._open()
            self._launch(available_now=True)
            self._await_spark()
            with self._step_lock:
                if not self._stopping.is_set():
                    self._step(None, None, finish=True)
        finally:
            self.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Until the pipeline ends or the time is over; whether it has ended. Raises what ended it."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self._query is not None and self._query.isActive:
            if self._stopping.wait(0.1):
                break
            if deadline is not None and time.monotonic() >= deadline:
                return False
        with self._step_lock:  # the batch at hand is done
            self._raise_error()
        return True

    def ask_to_stop(self) -> None:
        """From any thread: `wait` and `drain` return as soon as the batch at hand is done."""
        self._stopping.set()

    def stop(self) -> None:
        """Finishes the batch at hand, then stops. Everything committed stays."""
        self._stopping.set()
        with self._step_lock:
            pass
        if self._query is not None:
            self._query.stop()
            self._query = None
        if self._beat is not None and self._beat is not threading.current_thread():
            self._beat.join()
            self._beat = None
        self._owned.close()

    def __enter__(self) -> Pipeline:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def spark(self) -> SparkSession:
        """The session it runs in, where views of `format = 'memory'` are."""
        if self._spark is None:
            raise RuntimeError("the pipeline has not been started")
        return self._spark

    @property
    def places(self) -> dict[int, str]:
        """The executor each slot last worked on."""
        return dict(self._running().places)

    @property
    def batch(self) -> int:
        """The number of the last committed batch."""
        return self._stepper.manifest.batch if self._stepper else 0

    def _open(self) -> None:
        """Everything up to the first batch. If it fails nothing has begun."""
        compile_script(self._script(), functions=self._functions, settings=self._settings)
        self._stopping.clear()
        self._started = _now()
        self._error = None
        self._owned = ExitStack()
        try:
            self.directory.make()
            self._owned.enter_context(self.directory.locked())
            control = Control(
                self.directory, self._functions, self._settings, self._calibration, self._tell, dict(self._callbacks)
            )
            declared = control.check(self._script())
            self._spark = session_for(self._spark or make_session(self.name))
            streams = [
                replace(stream, options=self._elsewhere.get(stream.name, stream.options)) for stream in declared.streams
            ]
            self._source = united(self._spark, streams, self._frames)
            slots = declared.settings.slots or cores_of(self._spark)
            self._stepper = Stepper(self._spark, self.directory, min(slots, _MOST_SLOTS), self._functions, _now())
            control.begin(self._script(), self._stepper.manifest.batch + 1)
            self._control = control
            self._recover(control)
            self._use()
        except BaseException:
            self._owned.close()
            raise
        for warning in control.sinks.warnings():
            self._tell(warning)

    def _recover(self, control: Control) -> None:
        stepper = self._running()
        stepper.recover()
        place = self.directory.place
        late = [f"{place}/late/{stream.name}" for stream in control.planned().script.streams]
        shared = [f"{place}/results/shared/{name}" for name in self.directory.files.folders("results/shared")]
        sweep_staged([*(target.folder for target in control.targets().values()), *late, *shared])
        self._hand_over(stepper.manifest.batch, stepper.manifest.outputs)

    def _use(self) -> None:
        control = self._controlled()
        self._running().use(control.planned(), control.since(), control.targets())

    def _launch(self, *, available_now: bool) -> None:
        settings = self._controlled().planned().script.settings
        writer = self._source.writeStream.foreachBatch(self._on_rows).option(
            "checkpointLocation", self.directory.checkpoint
        )
        writer = (
            writer.trigger(availableNow=True)
            if available_now
            else writer.trigger(processingTime=f"{settings.trigger} microseconds")
        )
        try:
            self._query = writer.start()
        except PySparkException as error:
            self._owned.close()
            raise PipelineFailed(str(error).split("\n", 1)[0]) from None

    def _on_rows(self, rows: DataFrame, spark_batch: int) -> None:
        """Called by Spark for each of its batches."""
        with self._step_lock:
            if self._stopping.is_set():
                # To return would tell Spark that the batch is done.
                raise RuntimeError("stopping")
            if spark_batch <= self._running().manifest.spark_batch:
                return
            try:
                self._catch_up()
                self._step(rows, spark_batch)
            except BaseException as error:
                self._error = error
                raise

    def _catch_up(self) -> None:
        """Reads no further while more units wait than the backlog may hold."""
        limit = self._controlled().planned().script.settings.backlog
        while limit and self._running().manifest.deferred > limit:
            if self._stopping.is_set():
                raise RuntimeError("stopping")
            self._step(None, None, held_back=True)

    def _step(
        self, rows: DataFrame | None, spark_batch: int | None, *, finish: bool = False, held_back: bool = False
    ) -> None:
        control, stepper = self._controlled(), self._running()
        if control.change(stepper.manifest.batch + 1):
            self._use()
        came = now = _now()
        if spark_batch is not None:
            came = arrived(self.directory.checkpoint, spark_batch, self._started, now)
        while True:
            try:
                done = stepper.step(
                    rows,
                    spark_batch=spark_batch,
                    statements=control.in_force.count,
                    now=now,
                    arrived=came,
                    finish=finish,
                )
                break
            except QueryFailed as failure:
                self._fail(failure)
        self._last_step, self._last_watermarks = time.monotonic(), done.watermarks
        self._hand_over(done.manifest.batch, done.manifest.outputs)
        self._on_batch(progress(done, held_back=held_back))

    def _hand_over(self, batch: int, outputs: Any) -> None:
        """To sinks outside our files; a query whose sink raises ends with the next batch."""
        control = self._controlled()
        while True:
            try:
                app = self.directory.place
                if control.sinks.external or control.sinks.callbacks:
                    deliver(self.spark, batch, outputs, control.queries(), control.sinks, app)
                return
            except QueryFailed as failure:
                self._fail(failure)

    def _fail(self, failure: QueryFailed) -> None:
        control = self._controlled()
        if control.planned().script.settings.on_error == "stop":
            raise failure
        for query in failure.queries:
            control.fail(query, failure.cause, self._running().manifest.batch + 1)
            self._tell(f"query {query} is stopped: {failure.cause}")
        self._use()

    def _heartbeats(self) -> None:
        """Batches without rows, for work put off, for changes, and for event time that moves when streams are idle."""
        interval = self._controlled().planned().script.settings.heartbeat / 1e6
        pause = min(max(interval, 0.05), 0.5)
        while not self._stopping.wait(_BREATH if self._running().manifest.deferred else pause):
            # Work that waits needs no pause; to take a breath lets a batch with rows go first.
            quiet = time.monotonic() - self._last_step >= interval or self._running().manifest.deferred
            if not quiet or not self._has_work() or not self._step_lock.acquire(timeout=0.05):
                continue
            try:
                if not self._stopping.is_set() and self._error is None:
                    self._step(None, None)
            except BaseException as error:  # shown to whoever waits for the pipeline
                self._error = error
                self._stopping.set()
                if self._query is not None:
                    self._query.stop()
            finally:
                self._step_lock.release()

    def _has_work(self) -> bool:
        control, stepper = self._controlled(), self._running()
        if stepper.manifest.deferred:
            return True
        if stepper.manifest.batch and stepper.watermarks(control.planned(), _now()) != self._last_watermarks:
            return True
        return bool(control.registry.waiting())

    def _await_spark(self) -> None:
        if self._query is None:
            return
        with suppress(PySparkException):  # said better below
            while self._query.isActive and not self._stopping.is_set():
                self._query.awaitTermination(1)
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None and not isinstance(self._error, PySparkException):
            raise self._error
        broken: BaseException | None = self._error
        if broken is None and self._query is not None and not self._stopping.is_set():
            # A batch that Spark begins while the pipeline stops is refused, which is no failure.
            broken = self._query.exception()
        if broken is not None:
            raise PipelineFailed(_first_cause(str(broken))) from None

    def _script(self) -> str:
        if not self._statements:
            raise ScriptError("the pipeline has no streams", "it joins streams", "Call stream() and query().")
        return ";\n".join(self._statements) + ";\n"

    def _before_start(self, what: str) -> None:
        if self._control is not None:
            raise ScriptError("the pipeline runs already", f"{what} before it starts", "Use a new pipeline.")

    def _controlled(self) -> Control:
        if self._control is None:
            raise RuntimeError("the pipeline has not been started")
        return self._control

    def _running(self) -> Stepper:
        if self._stepper is None:
            raise RuntimeError("the pipeline has not been started")
        return self._stepper


def _now() -> int:
    return time.time_ns() // 1_000


def _escaped(text: str) -> str:
    return text.replace("'", "''")


def _doubled(text: str) -> str:
    return text.replace('"', '""')


def _first_cause(text: str) -> str:
    """The line of a Spark failure that says what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = [line for line in lines if "Error" in line or "Exception" in line]
    if any("No space left on device" in line for line in lines):
        return "the disk is full: No space left on device. Nothing of this batch counts; make room and start again"
    return last[-1] if last else lines[0] if lines else text
