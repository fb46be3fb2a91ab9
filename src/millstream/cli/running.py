"""A pipeline run for a person: shown on a screen, stopped by signals."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

import click

from millstream.cli.changes import place_of
from millstream.cli.screen import Screen, screen_for
from millstream.cli.spark import SparkOptions
from millstream.cli.words import near
from millstream.errors import PipelineFailed, QueryFailed, listing
from millstream.model.functions import Function
from millstream.pipeline.causes import first_cause
from millstream.pipeline.directory import Directory
from millstream.pipeline.preflight import preflight
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.registry import Registry
from millstream.plan import Plan
from millstream.plan.calibration import load

if TYPE_CHECKING:
    from millstream.pipeline import Pipeline

_PLAIN = SparkOptions()


def run_script(
    file: str,
    text: str,
    directory: str | None,
    functions: dict[str, Function],
    settings: dict[str, str],
    *,
    drain: bool,
    as_json: bool,
    spark: SparkOptions,
) -> None:
    """Everything `millstream run` does once the script is known to be valid."""
    stem = Path(file).stem
    place = Directory.at(directory or f"state/{stem}")
    preflight(text, place, functions)
    screen = screen_for(stem, as_json=as_json)
    with Signals() as signals:
        pipeline = open_pipeline(stem, place, screen, script=text, functions=functions, settings=settings, spark=spark)
        signals.stop(pipeline)
        with screen:
            failure = run_pipeline(pipeline, place, drain=drain)
    stopped = Registry(place.files.below("registry")).in_force().failed
    screen.end(
        place.location, places_of(pipeline, place), error=None if failure is None else str(failure), stopped=stopped
    )
    if failure is not None:
        raise failure
    if stopped:
        raise PipelineFailed(f"stopped by an error: {listing(stopped)}. The other queries are complete.")


class _Written(logging.FileHandler):
    """A log that may be on a disk that is full: what cannot be written is lost, which is not an error of its own."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is that of the library
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()

    def close(self) -> None:
        with suppress(OSError):
            super().close()


def open_pipeline(
    name: str,
    directory: Directory,
    screen: Screen,
    *,
    script: str,
    functions: dict[str, Function] | None = None,
    settings: dict[str, str] | None = None,
    spark: SparkOptions = _PLAIN,
) -> Pipeline:
    """A pipeline that reports to the screen, with its own Spark, whose log is in the directory."""
    from millstream.pipeline.connectors import session_options

    options = session_options(spark.packages, spark.jars, spark.conf, tell=screen.say)
    directory.make()
    log = log_of(directory)
    click.echo(f"starting Spark, which writes to {near(log)} ...", err=True)
    from millstream.pipeline import Pipeline
    from millstream.pipeline.session import make_session

    def on_batch(batch: BatchProgress) -> None:
        try:
            screen.batch(batch, _windows(pipeline.plan()))
        except BrokenPipeError:
            # The reader is gone; buffered output would raise again when the interpreter exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            pipeline.ask_to_stop()

    # Errors of batches are raised here too, so Py4J's messages about them go to Spark's log.
    written = _Written(log)
    logging.getLogger("py4j").handlers, logging.getLogger("py4j").propagate = [written], False
    logging.getLogger().addHandler(written)  # some of Py4J's messages go to the root logger
    word = re.sub(r"\W", "_", name)
    name = word if re.match(r"[^\W\d]", word) else f"_{word}"
    session = make_session(name, spark.master, options, log)
    pipeline = Pipeline(
        name,
        directory.location,
        script=script,
        spark=session,
        functions=functions,
        settings=settings,
        calibration=load(),
        on_batch=on_batch,
        tell=screen.say,
    )
    return pipeline


def _windows(plan: Plan) -> dict[str, str]:
    """The queries in the order of their declaration, each with its window in words."""
    intervals = {member.name: str(member.interval) for member in plan.members}
    return {query.name: intervals[query.name] for query in plan.script.queries}


def places_of(pipeline: Pipeline, directory: Directory) -> dict[str, str]:
    """Where the results of the queries in force are."""
    script = pipeline.plan().script
    base = Registry(directory.files.below("registry")).in_force().base
    return {query.name: place_of(query, directory, script.settings, base) for query in script.queries}


def log_of(directory: Directory) -> Path:
    """Spark's log: in the directory, or in the current folder where the directory is on another file system."""
    return Path(directory.location) / "spark.log" if directory.files.is_local else Path("spark.log")


class Signals:
    """The first SIGINT or SIGTERM asks the pipeline to stop, a second SIGINT ends the process at once."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._count = 0
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> Signals:
        self._install()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._asked.put(None)

    def stop(self, pipeline: Pipeline) -> None:
        """From now on signals stop this pipeline. Spark installs its own handler when it starts, so ours is installed
        again.
        """
        self._install()
        threading.Thread(target=self._forward, args=(pipeline,), name="millstream-signals", daemon=True).start()

    def _install(self) -> None:
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self._count += 1
        if self._count > 1 and number == signal.SIGINT:
            # Committed batches are safe however the process ends.
            os._exit(130)
        # Only this is safe in a signal handler: the interrupted code may hold locks.
        self._asked.put(number)

    def _forward(self, pipeline: Pipeline) -> None:
        if self._asked.get() is not None:
            click.echo("stopping after this batch ...", err=True)
            pipeline.ask_to_stop()


def run_pipeline(pipeline: Pipeline, directory: Directory, *, drain: bool) -> PipelineFailed | QueryFailed | None:
    """Runs the pipeline; returns the failure that ended it, or None."""
    try:
        if drain:
            pipeline.drain()
        else:
            pipeline.start()
            try:
                pipeline.wait()
            finally:
                pipeline.stop()
    except QueryFailed as failure:
        return failure
    except (PipelineFailed, OSError) as failure:
        cause = first_cause(str(failure)) if isinstance(failure, OSError) else str(failure)
        return PipelineFailed(
            f"{directory.location}: {cause}; nothing of the batch counts, all before it is committed."
            f" See {log_of(directory)}, and start again when the cause is gone."
        )
    return None
