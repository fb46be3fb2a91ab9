"""`millstream demo`: the data-centre example on Spark, with a query added half-way, and what sharing saved."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.running import Signals, log_of, open_pipeline, places_of
from millstream.cli.screen import Screen, screen_for
from millstream.cli.words import count, near, seconds, size
from millstream.compile import compile_script
from millstream.errors import PipelineFailed, ScriptError, Where
from millstream.lab.workloads.datacentre import SPAN, STREAMS, Feed, join_times, unshared_rows
from millstream.pipeline.changes import Changes
from millstream.pipeline.directory import Directory

if TYPE_CHECKING:
    from millstream.pipeline import Pipeline

SCRIPT = resources.files("millstream").joinpath("examples/datacentre.sql").read_text(encoding="utf-8")
ADDED = """\
CREATE QUERY fire AS
SELECT T.LocationId, T.Value AS temperature, H.Value AS humidity
FROM Temperature T, Humidity H
WHERE T.LocationId = H.LocationId AND T.Value > 50 AND H.Value < 40
WINDOW 30 SECONDS;
"""
_PATIENCE_SECONDS = 120


def run_demo(place: str | None, length: float) -> None:
    """The whole demonstration."""
    folder = Path(place) if place else Path(tempfile.mkdtemp(prefix="millstream-demo-"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ScriptError(
            "the directory is not empty" if folder.is_dir() else "this is a file",
            "the demo starts afresh",
            "Name one that does not exist.",
            Where(file=place),
        )
    directory = Directory.at(folder / "state")
    click.echo("Seven window joins over two streams of sensor readings; the windows reach from 1 second to 10 minutes.")
    click.echo(
        f"Bursts of readings are written as files for {length:g} s. Event time runs {SPAN / length:.0f} times"
        " as fast as the clock, so that the widest window fills."
    )
    click.echo()
    screen, feed = screen_for("datacentre", timed=False), Feed(folder / "in", length)
    with Signals() as signals:
        pipeline = open_pipeline("datacentre", directory, screen, script=SCRIPT)
        signals.stop(pipeline)
        finished = _run(pipeline, directory, screen, feed)
    screen.end(directory.location, places_of(pipeline, directory))
    if finished:
        for text in _savings(screen, feed, Changes.of(directory.location).current().text()):
            click.echo(text)
    for text in _how_to_look(directory):
        click.echo(text)


def _run(pipeline: Pipeline, directory: Directory, screen: Screen, feed: Feed) -> bool:
    """Feeds the pipeline until all files are read, or until it is stopped; returns whether all files were written."""
    for stream in STREAMS:
        feed.path(stream).mkdir(parents=True)
        pipeline.read(stream, "parquet", path=str(feed.path(stream)))
    over, done = threading.Event(), threading.Event()
    with screen:
        pipeline.start()
        writer = threading.Thread(target=_write, args=(feed, directory, screen, over, done), daemon=True)
        writer.start()
        try:
            patience = _PATIENCE_SECONDS * 5
            while not pipeline.wait(0.2):
                if not writer.is_alive() and not done.is_set():
                    raise PipelineFailed("the readings could not be written")
                if done.is_set():
                    patience -= 1
                    if screen.history.rows_in.total() >= feed.count():
                        break
                    if not patience:
                        raise PipelineFailed(f"the pipeline does not keep up; see {log_of(directory)}")
        finally:
            over.set()
            pipeline.stop()
            writer.join()
    return done.is_set()


def _write(feed: Feed, directory: Directory, screen: Screen, over: threading.Event, done: threading.Event) -> None:
    def begun() -> bool:
        while not screen.history.batches:
            if over.wait(0.1):
                return False
        return True

    for step in feed.write(lambda length: not over.wait(max(0.0, length)), begun):
        if step == feed.steps // 2 - 1:
            # The same as `millstream query add`.
            changes = Changes.of(directory.location)
            (asked,) = changes.add(ADDED)
            screen.say(f"half-way: query fire is added while the others run; {changes.outcome(asked)}")
        if step == feed.steps - 1:
            done.set()


def _savings(screen: Screen, feed: Feed, script: str) -> Iterator[str]:
    """The measured state and time, compared with those of unshared joins."""
    history, rows = screen.history, feed.rows()
    last = history.last
    if last is None or not last.state_rows:
        return
    plan = compile_script(script)
    alone = unshared_rows(plan, rows)
    total, each = sum(alone.values()), last.state_bytes / last.state_rows
    shared_time, alone_time = join_times(plan, feed.batches())
    saved_state, saved_time = (100 * (1 - share) for share in (last.state_rows / total, shared_time / alone_time))
    yield ""
    yield f"What sharing saved: {len(plan.members)} queries as one, against a join for each"
    for name, shared, apart in (
        ("state rows", count(last.state_rows), f"{count(total):>10}  counted by each query's window and selections"),
        (
            "state bytes",
            size(last.state_bytes),
            f"{size(total * each):>10}  estimated at the same {each:.0f} bytes a row",
        ),
        ("join time", seconds(shared_time), f"{seconds(alone_time):>10}  measured: CPU time of both, in one process"),
    ):
        yield f"  {name:11}  {shared:>10} measured;  apart {apart}"
    yield f"  {saved_state:.0f} % of the state is saved, and {saved_time:.0f} % of the join time."


def _how_to_look(directory: Directory) -> Iterator[str]:
    python, command = (near(Path(sys.executable).with_name(name)) for name in ("python", "millstream"))
    results = f"{directory.location}/results"
    yield ""
    yield f"The results are Parquet files, a folder per query, in {results}"
    yield f"  {command} query list {directory.location}"
    yield f"""  {python} -c "import pyarrow.parquet as pq; print(pq.read_table('{results}/alarm').slice(0, 5))\""""
