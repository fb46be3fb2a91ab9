"""`millstream check --read`: what the sources of a script hold, in words."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from millstream.cli.script import errors_at_their_lines
from millstream.cli.words import count, counted, near
from millstream.errors import ScriptError, ScriptErrors
from millstream.model import moments
from millstream.model.known_options import FILE_FORMATS, format_of
from millstream.model.script import Script
from millstream.pipeline.likely import in_words
from millstream.pipeline.locations import literal, located
from millstream.pipeline.preflight import check_path
from millstream.pipeline.reading import Look, look
from millstream.pipeline.session import make_session, session_for


def read_sources(script: Script, text: str, file: str) -> None:
    """Looks at every source. What a start would refuse is shown as an error, and ends the command with exit code 2."""
    wrong: list[ScriptError] = []
    streams = []
    for stream in script.streams:
        found = replace(stream, options=located(stream.options, str(Path.cwd())))
        try:
            check_path(found)
            streams.append(replace(found, options=literal(found.options)))
        except ScriptError as error:
            wrong.append(error.at(stream.where))
    with tempfile.TemporaryDirectory(prefix="millstream-") as folder:
        spark = session_for(make_session("check", log=Path(folder) / "spark.log"), script.streams) if streams else None
        for stream in streams:
            try:
                for line in lines(look(spark, stream, script.settings.future)) if spark else ():
                    click.echo(line)
            except ScriptError as error:
                wrong.append(error.at(stream.where))
    with errors_at_their_lines(text, file):
        if wrong:
            raise ScriptErrors(wrong)


def lines(found: Look) -> Iterator[str]:
    """What was found, for people to read."""
    stream = found.stream
    kind = format_of(stream.options)
    if kind in FILE_FORMATS:
        place = near({name.lower(): value for name, value in stream.options}.get("path", ""))
        files = counted(found.files, f"{kind} file") if found.files else f"no {kind} file yet"
        some = f", the first {count(found.sampled)} read" if found.sampled < found.files else ""
        yield f"{stream.name}: {files} in {place}{some}"
    else:
        yield f"{stream.name}: {kind} can be opened" + ("" if found.rows is not None else "; no rows were read")
    for difference in found.differences:
        yield f"  {difference}"
    if found.rows is None:
        return
    if found.rows and found.first is not None and found.last is not None:
        span = f", {stream.time} from {moments.text(found.first)} to {moments.text(found.last)}"
    else:
        span = ""
    yield f"  {counted(found.rows, 'row')}{span}"
    unusable = sum(found.late.values())
    if unusable:
        yield f"  {unusable / found.rows:.1%} would go to late/: {in_words(found.late)}"
        yield f"  likely reason: {found.likely}"
    elif found.rows:
        yield "  none would be late or unreadable"
    if found.alone > found.late.get("older than the watermark", 0):
        yield (
            f"  if every file came as a batch of its own, {count(found.alone)} would be late: files are read in the"
            " order of their modification times"
        )
