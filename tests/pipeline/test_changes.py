"""A change is the same from Python, by the command and by a file in the inbox: one table of cases, three ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from millstream.cli import main
from millstream.cli.script import read_functions
from millstream.errors import MillstreamError, ScriptError, ScriptErrors
from millstream.pipeline import Pipeline
from millstream.pipeline.changes import Changes
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.registry import InForce

SCRIPT = """
CREATE STREAM T (Id INT, Value DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', path = 'in/T');
CREATE STREAM H (Id INT, Value DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', path = 'in/H');
CREATE QUERY near AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE;
CREATE QUERY far AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 HOUR;
"""
SELECT = "SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 5 MINUTES"
FUNCTION = "import millstream\n@millstream.function('BOOLEAN', 'DOUBLE')\ndef mine(value):\n    return value > 0\n"
BATCH = 7
Step = tuple[str, ...]
Way = Callable[[Control, Step], str | None]
"""Asks for one change; what is said against it, if anything is."""


def text_of(step: Step) -> str:
    _, name, select, *options = step
    return f"CREATE QUERY {name}{''.join(f' WITH ({one})' for one in options)} AS {select}"


def python(control: Control, step: Step) -> str | None:
    pipeline = Pipeline("test", control.directory.location)
    pipeline._control = control
    action, name, *rest = step
    given = dict(pair.split(" = ") for pair in rest[1].replace("'", "").split(", ")) if rest[1:] else {}
    try:
        pipeline.drop(name) if action == "drop" else pipeline.query(name, rest[0], **given)
    except MillstreamError as error:
        return str(error)
    return None


def command(control: Control, step: Step) -> str | None:
    action, name, *_ = step
    place = control.directory.location
    given = ["drop", place, name] if action == "drop" else ["add", place, "-", "--functions", "../mine.py"]
    found = CliRunner().invoke(main, ["query", *given], input="" if action == "drop" else text_of(step))
    assert found.exit_code in (0, 2), found.output
    assert (found.exit_code == 2) == bool(found.stderr)
    return found.stderr or None


def inbox(control: Control, step: Step) -> str | None:
    action, name, *_ = step
    ticket = control.registry.ask(action, name, "" if action == "drop" else text_of(step))
    control.change(BATCH)
    return control.registry.refusal(ticket)


WAYS = (python, command, inbox)


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Control:
    """A script begun in one folder, and changed from another."""
    for name in ("in/T", "in/H", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "mine.py").write_text(FUNCTION)
    monkeypatch.chdir(tmp_path)
    theirs = begun("theirs", SCRIPT.replace("QUERY near", "QUERY near WITH (path = 'taken')"))
    assert theirs.targets()["near"].folder == str(tmp_path / "taken")
    found = begun("state", SCRIPT)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return found


def begun(place: str, script: str) -> Control:
    directory = Directory.at(place)
    directory.make()
    control = Control(directory=directory, functions=read_functions(("mine.py",)))
    control.check(script)
    control.begin(script, 1)
    return control


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("steps", "queries"),
    [
        ([("add", "mid", SELECT)], {"near": 1, "far": 1, "mid": BATCH}),
        ([("add", "mid", f"{SELECT};")], {"near": 1, "far": 1, "mid": BATCH}),
        ([("add", "mid", SELECT.replace(" WINDOW", " AND mine(T.Value) WINDOW"))], {"near": 1, "far": 1, "mid": BATCH}),
        ([("drop", "FAR")], {"near": 1}),
        ([("drop", "far"), ("add", "FAR", SELECT)], {"near": 1, "FAR": BATCH}),
        ([("drop", "far"), ("add", "far", SELECT), ("drop", "far")], {"near": 1}),
        ([("add", "mid", SELECT), ("drop", "Mid")], {"near": 1, "far": 1}),
    ],
    ids=lambda case: " ".join("-".join(step[:2]) for step in case) if isinstance(case, list) else "",
)
def test_what_is_in_force_afterwards(control: Control, way: Way, steps: list[Step], queries: dict[str, int]) -> None:
    assert [way(control, step) for step in steps] == [None] * len(steps)
    control.change(BATCH)
    assert control.since() == queries
    assert control.registry.in_force() == control.in_force
    assert {query.name for query in control.planned().script.queries} == set(queries)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("add", "NEAR", SELECT)], 'query "near" is there already; names differ. Drop it first, or rename it.'),
        ([("add", "mid", SELECT), ("add", "Mid", SELECT)], 'query "mid" is there already; names differ. Drop it'),
        (
            [("add", "mid", SELECT.replace("T.Id FROM", "T.Idd FROM"))],
            'no column "Idd" in T; it has Id, Value, Ts. Did you mean "Id"?',
        ),
        ([("add", "mid", SELECT.replace("T.Id =", "yours(T.Id) ="))], 'no function "yours"'),
        (
            [("add", "mid", f"{SELECT}; SET slicing = 'memory'")],
            "SET slicing; streams and settings stay as the pipeline was started; CREATE QUERY can be added. Give",
        ),
        (
            [("add", "mid", f"{SELECT}; CREATE STREAM X (Ts TIMESTAMP) WITH (time = 'Ts')")],
            "CREATE STREAM X; streams and settings stay as the pipeline was started; CREATE QUERY can be added. Give",
        ),
        ([("add", "mid", "SELECT 'oh")], "a quote ' is opened and never closed"),
        ([("add", "mid", SELECT, "compression = 'zip'")], "compression = 'zip'; it is one of lz4"),
        ([("add", "mid", SELECT, "path = 'in/T'")], "in/T', where stream T reads; results would come back as rows"),
        ([("add", "mid", SELECT, "path = 'taken'")], "/taken' has results of another pipeline, in "),
        ([("add", "mid", SELECT, "path = 'state/x'")], "inside the pipeline's own directory; a path lies outside it"),
        ([("drop", "nera")], 'no query "nera"; the queries are near, far. Did you mean "near"?'),
        ([("drop", "far"), ("drop", "far")], 'no query "far"; the queries are near. Use one of these.'),
        ([("drop", "far"), ("drop", "near"), ("drop", "far")], "the queries are none. Add one first."),
    ],
)
def test_what_is_refused_and_why(control: Control, way: Way, steps: list[Step], message: str) -> None:
    *good, last = steps
    assert [way(control, step) for step in good] == [None] * len(good)
    before = control.changes.expected()
    said = way(control, last)
    assert message in (said or ""), said
    control.change(BATCH)
    assert list(control.in_force.queries) == list(before.queries), "what was asked for before it holds, and no more"


@pytest.mark.parametrize("way", WAYS)
def test_places_are_counted_in_the_text_of_the_change(control: Control, way: Way) -> None:
    said = way(control, ("add", "mid", SELECT.replace("T.Id FROM", "\nT.Idd FROM")))
    assert "query 'mid', line 2, column 3: no column" in (said or ""), said


@pytest.mark.parametrize("way", WAYS)
def test_a_relative_path_counts_from_where_the_directory_was_begun(control: Control, way: Way, tmp_path: Path) -> None:
    assert way(control, ("add", "mid", SELECT, "path = 'out'")) is None
    control.change(BATCH)
    assert control.targets()["mid"].folder == str(tmp_path / "out")
    mark = json.loads((tmp_path / "out" / "_millstream.mark").read_text())
    assert mark["pipeline"] == control.in_force.owner


def test_a_text_of_several_queries_becomes_a_change_for_each(control: Control) -> None:
    two = ("add", "mid", f"{SELECT}; CREATE QUERY other AS {SELECT}")
    for way in (python, inbox):
        said = way(control, two)
        assert said == (
            '"mid", "other" to add as "mid"; a change adds one query, by the name it has in its CREATE QUERY.'
            " Ask for each by its own name."
        )
    assert command(control, two) is None
    assert [entry.query for _, entry in control.registry.waiting()] == ["mid", "other"]
    assert control.change(BATCH)
    assert control.since() == {"near": 1, "far": 1, "mid": BATCH, "other": BATCH}


def test_a_ticket_for_another_query_than_its_text_says_is_refused(control: Control) -> None:
    ticket = control.registry.ask("add", "mid", text_of(("add", "other", SELECT)))
    assert not control.change(BATCH)
    assert '"other" to add as "mid"' in (control.registry.refusal(ticket) or "")
    assert list(control.in_force.queries) == ["near", "far"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_batch_that_comes_between_hides_no_change(control: Control, when: str) -> None:
    """It takes the change out of the inbox just before or just after somebody has looked at what is in force."""

    def current() -> InForce:
        if when == "before":
            control.change(BATCH)
        found = control.in_force
        control.change(BATCH)
        return found

    changes = replace(control.changes, current=current)
    control.registry.ask("add", "mid", text_of(("add", "mid", SELECT)))
    control.registry.ask("drop", "far")
    assert list(changes.expected().queries) == ["near", "mid"]
    assert list(control.in_force.queries) == ["near", "mid"]


def test_what_became_of_a_change(control: Control) -> None:
    changes = Changes.of(control.directory.location)
    dropped = changes.drop("FAR")
    assert changes.outcome(dropped) == "waits; it takes effect when the pipeline is started next"
    control.change(4)
    (far,) = changes.add(text_of(("add", "far", SELECT)))
    control.change(9)
    (mid,) = changes.add(text_of(("add", "mid", SELECT)))
    control.change(12)
    assert changes.outcome(dropped) == "dropped from batch 4 on"
    assert changes.outcome(far) == "in force from batch 9 on"
    assert changes.outcome(mid) == "in force from batch 12 on"
    refused = changes.drop("mid")
    control.registry.take_out(refused.ticket)
    control.registry.refuse(refused.ticket, "no reason")
    with pytest.raises(ScriptError, match="not applied: no reason; nothing has changed"):
        changes.outcome(refused)


def test_a_callback_belongs_to_the_change_it_came_with(control: Control) -> None:
    """Not to a name: a second query of the name, refused or to come, takes nothing from the first."""
    got: list[str] = []

    def sink(name: str) -> Callable[[int, Any], None]:
        return lambda *_: got.append(name)

    def called() -> list[str]:
        got.clear()
        control.sinks.callbacks["mid"](1, None)
        return got

    statement = text_of(("add", "mid", SELECT))
    control.ask_for("mid", statement, sink("first"))
    ticket = control.registry.ask("add", "MID", text_of(("add", "MID", SELECT)))
    control.coming[ticket] = sink("refused")
    control.change(2)
    assert called() == ["first"]
    control.changes.drop("mid")
    control.ask_for("mid", statement, sink("second"))
    control.fail("near", "it broke", 2)
    assert called() == ["first"], "as long as the second waits"
    control.change(3)
    assert called() == ["second"]
    assert not control.coming
    control.changes.drop("mid")
    control.ask_for("mid", statement, None)
    control.change(4)
    assert not control.sinks.takes("mid")


def test_a_folder_that_cannot_be_written_to_leaves_everything_as_it_was(control: Control, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    ticket = control.registry.ask("add", "mid", text_of(("add", "mid", SELECT, "path = 'file'")))
    assert not control.change(BATCH)
    assert "/file' cannot be written to" in (control.registry.refusal(ticket) or "")
    assert set(control.queries()) == set(control.since()) == {"near", "far"}


def test_functions_of_what_is_in_force_must_be_named_again(control: Control) -> None:
    """The command knows only those it is given; what it cannot compile is not what it was asked to add."""
    assert python(control, ("add", "mid", SELECT.replace(" WINDOW", " AND mine(T.Value) WINDOW"))) is None
    control.change(BATCH)
    with pytest.raises(ScriptErrors) as caught:
        Changes.of(control.directory.location).add(text_of(("add", "other", SELECT)))
    (error,) = caught.value.errors
    assert str(error).startswith("query 'mid': no function \"mine\"")
    assert str(error).endswith("It is in force already: name the same --functions as the pipeline was started with.")
