"""`Pipeline`: the whole, from Python. It starts, changes, drains and stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from millstream.compile import compile_script
from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model.functions import Function
from millstream.model.script import Script
from millstream.model.stream import Stream, check_name
from millstream.pipeline.arguments import check_alone, check_frame, check_no_session, check_sink, check_text
from millstream.pipeline.columns import columns_of
from millstream.pipeline.connectors import session_options
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.locations import check_apart, literal, located
from millstream.pipeline.preflight import check_options
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.recovery import recover
from millstream.pipeline.results import read_results
from millstream.pipeline.running import Running
from millstream.pipeline.session import cores_of, make_session, session_for
from millstream.pipeline.sinks import Callback, check_formats
from millstream.pipeline.sources import united
from millstream.pipeline.step import Stepper
from millstream.plan import Calibration, Plan
from millstream.plan.explain import FORMATS


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
    """Runs queries over streams as one shared stream of work; all its state is in `directory`.

    `on_batch` gets the progress of each committed batch, `tell` messages for people. `packages`, `jars` and `conf` are
    for the Spark session that it makes where it is given none.
    """

    def __init__(
        self,
        name: str,
        directory: str | Path | None = None,
        *,
        script: str = "",
        spark: SparkSession | None = None,
        packages: Sequence[str] = (),
        jars: Sequence[str] = (),
        conf: Mapping[str, str] | None = None,
        functions: Mapping[str, Function] | None = None,
        settings: Mapping[str, str] | None = None,
        calibration: Calibration | None = None,
        on_batch: Callable[[BatchProgress], None] = lambda _: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        check_name("pipeline", name)
        check_text("script", script)
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
        self._options = session_options(packages, jars, conf, tell=tell)
        check_no_session(spark, self._options)
        self._callbacks: dict[str, Callback] = {}
        self._control: Control | None = None
        self._stepper: Stepper | None = None
        self._run: Running | None = None
        self._asked_to_stop = False
        self._owned = ExitStack()

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
        """Declares a stream that is read from a streaming DataFrame."""
        self._before_start("streams are declared")
        check_name("stream", name)
        check_frame(name, frame)
        hints = {"time": time, "delay": delay, "idle": idle, "rate": rate, "keys": keys}
        given = ", ".join(f"{key} = '{_escaped(str(value))}'" for key, value in hints.items() if value is not None)
        columns = ", ".join(columns_of(frame))
        self._statements.append(f'CREATE STREAM "{name}" ({columns}) WITH ({given})')
        self._frames[name] = frame

    def read(self, name: str, source: str, /, **options: str) -> None:
        """Reads a declared stream from another source than its declaration says: a Spark format, with options."""
        self._before_start("sources are named")
        self._elsewhere[name.lower()] = (("format", source), *options.items())

    def sql(self, script: str) -> None:
        """Adds statements: CREATE STREAM, CREATE QUERY, SET."""
        self._before_start("statements are given")
        check_text("script", script)
        self._statements.append(script.strip().rstrip(";"))

    def query(self, name: str, select: str, *, sink: Callback | None = None, **options: str) -> QueryHandle:
        """Adds a query; while the pipeline runs, from the next batch on. `sink` gets (batch, rows) of each commit."""
        check_name("query", name)
        for what, value in (("SELECT", select), *options.items()):
            check_text(f"{what} of query {name}", value)
        check_sink(name, sink, options)
        given = ", ".join(f"{key} = '{_escaped(value)}'" for key, value in options.items())
        statement = f'CREATE QUERY "{name}"{f" WITH ({given})" if given else ""} AS {select.strip().rstrip(";")}'
        control = self._control
        if control is not None:
            control.ask_for(name, statement, sink)
            return QueryHandle(self, name)
        check_alone(name, statement, self._statements)
        self._statements.append(statement)
        if sink is not None:
            self._callbacks[name] = sink
        return QueryHandle(self, name)

    def drop(self, name: str) -> None:
        """Ends a query with the next batch. Its results stay."""
        if self._control is None:
            raise ScriptError(f'query "{name}" is not running', "running queries are dropped", "Start the pipeline.")
        self._control.changes.drop(name)

    def rescale(self, slots: int) -> None:
        """Divides the keys among another number of slots, with the next batch."""
        if self._control is None:
            raise ScriptError("the pipeline is not running", "a running one is rescaled", "Start it, or SET slots.")
        self._control.changes.rescale(slots)

    def queries(self) -> list[str]:
        """The names of the queries in force."""
        if self._control is not None:
            return list(self._control.in_force.queries)
        return [query.name for query in self.plan().script.queries]

    def plan(self) -> Plan:
        """The shared plan in force, or the one that would be."""
        if self._control is not None:
            return self._control.planned()
        return compile_script(
            self._script(), functions=self._functions, settings=self._settings, calibration=self._calibration
        )

    def explain(self, style: str = "text") -> str:
        """The shared plan in words, as JSON or for Graphviz."""
        if style not in FORMATS:
            raise ScriptError(f"style = {style!r}", f"it is one of {listing(FORMATS)}", "Choose one.")
        return FORMATS[style](self.plan())

    def results(self, name: str) -> pa.Table:
        """The rows of a query from all committed batches since it was added or last changed."""
        if self._control is None:
            raise ScriptError("the pipeline has not been started", "results are those of its runs", "Start it.")
        known = self._control.changes.known(self._control.in_force, name)
        if self._control.sinks.takes(known):
            found, valid = (
                f"the rows of {known} go to a sink",
                "results are those in Parquet files of the pipeline's own",
            )
            raise ScriptError(found, valid, "Look where the sink has put them.")
        query, since = self._control.queries()[known], self._control.since()[known]
        return read_results(self._control.targets()[known], query, since)

    def start(self) -> None:
        """Starts the pipeline; returns at once."""
        if self._run is not None and self._run.is_active:
            raise ScriptError("the pipeline runs already", "it is started once until it stops", "Call stop() first.")
        self._launch(available_now=False)

    def drain(self) -> None:
        """Processes the input that is there, finishes deferred work, and stops; a run in progress is stopped first."""
        try:
            self._launch(available_now=True).finish()
        finally:
            self.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the pipeline ends or the time is over; returns whether it has ended. Raises the error that ended
        it.
        """
        return self._run is None or self._run.wait(seconds)

    def ask_to_stop(self) -> None:
        """Can be called from any thread: `wait` and `drain` return as soon as the current batch is done."""
        self._asked_to_stop = True
        if self._run is not None:
            self._run.ask_to_stop()

    def stop(self) -> None:
        """Finishes the current batch, then stops. Everything committed stays."""
        if self._run is not None:
            self._run.stop()
            self._run = None
        self._asked_to_stop = False
        self._owned.close()

    def __enter__(self) -> Pipeline:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def spark(self) -> SparkSession:
        """The Spark session it runs in, which has the views of `format = 'memory'`."""
        if self._spark is None:
            raise RuntimeError("the pipeline has not been started")
        return self._spark

    @property
    def executors(self) -> dict[int, str]:
        """The executor each slot last worked on."""
        return dict(self._stepper.executors) if self._stepper else {}

    @property
    def batch(self) -> int:
        """The number of the last committed batch."""
        return self._stepper.manifest.batch if self._stepper else 0

    def _launch(self, *, available_now: bool) -> Running:
        """Does everything before the first batch. If it fails, no batch has begun."""
        script = self._script()
        compile_script(script, functions=self._functions, settings=self._settings)
        if self._run is not None:
            # Two runs of one directory would undo each other's batches, so a previous run is stopped here.
            asked = self._asked_to_stop
            self.stop()
            self._asked_to_stop = asked
        self._owned = ExitStack()
        try:
            self.directory.make()
            self._owned.enter_context(self.directory.locked())
            recover(self.directory, self._tell)
            last = self._control
            control = Control(
                directory=self.directory,
                functions=self._functions,
                settings=self._settings,
                calibration=self._calibration,
                tell=self._tell,
                callbacks=last.callbacks if last else dict(self._callbacks),
                coming=last.coming if last else {},
            )
            declared = control.check(script)
            if control.begins_anew:
                control.forget()
            self._spark = session_for(self._spark or make_session(self.name, options=self._options), declared.streams)
            source = united(self._spark, self._sources(declared, control.base), self._frames, self._tell)
            check_formats(self._spark, declared.queries, control.base, self._tell)
            slots = declared.settings.slots or cores_of(self._spark)
            groups = declared.settings.groups
            self._stepper = Stepper(
                self._spark,
                self.directory,
                self._functions,
                groups=groups,
                slots=min(slots, groups),
                calibration=control.calibration,
            )
            self._run = Running(self._spark, self.directory, control, self._stepper, self._on_batch, self._tell)
            if control.in_force.script not in ("", script) and control.resume():
                # Rows of the last batch belong to the queries as they were then, which an edited script may have
                # changed.
                self._run.recover()
            control.begin(script, self._stepper.manifest.batch + 1)
            self._control = control
            if not control.in_force.queries:
                self._tell("no query is in force: rows that come are read and not kept")
            for warning in control.sinks.warnings():
                self._tell(warning)
            self._run.recover()
            if self._asked_to_stop:  # while Spark was starting
                self._run.ask_to_stop()
            self._run.launch(source, available_now=available_now)
        except BaseException:
            self._owned.close()
            raise
        return self._run

    def _sources(self, declared: Script, base: str) -> list[Stream]:
        """The streams with the options they are read by."""
        names = [stream.name for stream in declared.streams]
        for name in self._elsewhere.keys() - {name.lower() for name in names}:
            todo = did_you_mean(name, names, "Use one of these.")
            raise ScriptError(f'no stream "{name}" to read', f"the streams are {listing(names)}", todo)
        found = []
        for stream in declared.streams:
            options = located(self._elsewhere.get(stream.name.lower(), stream.options), base)
            if stream.name not in self._frames:
                check_options(replace(stream, options=options))
            check_apart(stream.name, options, self.directory.location)
            found.append(replace(stream, options=literal(options)))
        return found

    def _script(self) -> str:
        if not self._statements:
            raise ScriptError("the pipeline has no streams", "it joins streams", "Call stream() and query().")
        return ";\n".join(self._statements) + ";\n"

    def _before_start(self, what: str) -> None:
        if self._control is not None:
            raise ScriptError("the pipeline runs already", f"{what} before it starts", "Use a new pipeline.")


def _escaped(text: str) -> str:
    return text.replace("'", "''")
