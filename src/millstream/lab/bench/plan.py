"""How long planning and checking take, against sqlglot alone on the same text and against planning queries apart."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sqlglot

from millstream import sql
from millstream.errors import Errors
from millstream.lab.show import verdict
from millstream.lab.timed import best_of
from millstream.lab.workloads.windows import window_script
from millstream.model.script import Script
from millstream.plan import make_plan

QUERIES, CHECKED = 1_000, 50


def report() -> Iterator[str]:
    """Lines of a table; each time is the best of five."""
    script = sql.read(window_script(range(1, QUERIES + 1)), Errors())
    shared = best_of(lambda: make_plan(script))
    alone = best_of(lambda: [make_plan(Script(script.streams, (query,))) for query in script.queries])
    yield f"plan {QUERIES:,} queries with distinct windows"
    yield f"  together              {shared:8.3f} s   limit 2 s: {verdict(shared < 2)}"
    yield f"  one plan each         {alone:8.3f} s   together takes {shared / alone:.2f} of it"
    text = window_script(range(1, CHECKED + 1))
    read = best_of(lambda: sql.read(text, Errors()))
    checked = best_of(lambda: make_plan(sql.read(text, Errors())))
    parsed = best_of(lambda: _parse_selects(text))
    yield f"check a script of {CHECKED} queries, after start-up"
    yield f"  check                 {checked:8.3f} s   limit 1 s: {verdict(checked < 1)}"
    yield f"  of it, text to model  {read:8.3f} s"
    yield f"  sqlglot on its SELECTs{parsed:8.3f} s   check takes {checked / parsed:.1f} times as long"
    yield f"start-up and check, as a process  {_process(text):.2f} s, of which bare Python {_process(None):.2f} s"


def _parse_selects(text: str) -> None:
    """The peer: sqlglot's own parser on the same queries, without their WINDOW, which it does not know."""
    for statement in text.split(";"):
        if " AS SELECT " in statement:
            sqlglot.parse_one(statement.split(" AS ", 1)[1].split(" WINDOW ")[0])


def _process(text: str | None) -> float:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "script.sql")
        path.write_text(text or "", encoding="utf-8")
        command = [sys.executable, "-m", "millstream", "check", str(path)] if text else [sys.executable, "-c", "pass"]
        return best_of(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), 3)
