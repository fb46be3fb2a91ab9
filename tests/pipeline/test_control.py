"""What runs, and where its rows come from and go to: without Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.errors import MillstreamError, ScriptError
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.pipeline import Pipeline
from millstream.pipeline.preflight import preflight

STREAMS = """
CREATE STREAM A (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts', path = 'in/A');
CREATE STREAM B (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts', path = 'in/B');
"""
PAIR = "SELECT A.k, A.s FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE"
Begin = Callable[..., Control]


def query(name: str, options: str = "", select: str = PAIR) -> str:
    return f"CREATE QUERY {name}{f' WITH ({options})' if options else ''} AS {select};"


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Starts a script in a directory, as far as that goes without Spark."""
    for name in "AB":
        (tmp_path / "in" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def begun(script: str, directory: str = "state", batch: int = 1) -> Control:
        place = Directory.at(directory)
        place.make()
        preflight(script, place, {})
        control = Control(directory=place)
        control.check(script)
        control.begin(script, batch)
        return control

    return begun


def test_relative_paths_count_from_where_a_directory_was_begun(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = STREAMS + query("q", "path = 'out'") + query("j", "format = 'json', Path = './out/j/'")
    first = begin(script)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = begin(script, "../state")
    for control in (first, again):
        assert control.targets()["q"].folder == str(tmp_path / "out")
        assert dict(control.sinks.external["j"].options) == {"path": str(tmp_path / "out" / "j")}
    with pytest.raises(ScriptError, match=r"stream A reads '.*/elsewhere/in/A', which does not exist"):
        begin(script, "other")
    absolute = script.replace("'in/A'", f"'file://{tmp_path}/in/A/'")
    begin(absolute, "../state")
    moved = rf"stream A has changed: path was {tmp_path}/in/A and is /in/A\b"
    with pytest.raises(ScriptError, match=moved):
        begin(script.replace("'in/A'", "'/in/A'"), "../state")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pipeline": 1}'])
def test_a_mark_that_makes_no_sense_is_told(begin: Begin, tmp_path: Path, text: str) -> None:
    script = STREAMS + query("q", "path = 'out'")
    begin(script)
    (tmp_path / "out" / "_millstream.mark").write_text(text)
    with pytest.raises(ScriptError, match=r"_millstream.mark' cannot be read; it says which pipeline"):
        begin(script)


@pytest.mark.parametrize("options", ["path = 'out'", "format = 'json', path = 'out'"])
def test_a_path_takes_the_results_of_one_pipeline(begin: Begin, tmp_path: Path, options: str) -> None:
    script = STREAMS + query("q", options)
    begin(script)
    mark = json.loads((tmp_path / "out" / "_millstream.mark").read_text())
    assert mark["directory"] == str(tmp_path / "state")
    begin(script)
    with pytest.raises(ScriptError, match=r"'.*/out' has results of another pipeline, in .*/state; .* another path"):
        begin(script, "second")
    other = begin(STREAMS + query("other"), "third")
    other.registry.ask("add", "q", query("q", options).rstrip(";"))
    assert not other.change(2)
    assert list(other.in_force.queries) == ["other"]


def test_a_directory_may_be_moved_but_a_copy_writes_elsewhere(begin: Begin, tmp_path: Path) -> None:
    script = STREAMS + query("q", "path = 'out'")
    begin(script)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    with pytest.raises(ScriptError, match=r"has results of a copy of this pipeline, in .*/state"):
        begin(script, "copy")
    shutil.rmtree(tmp_path / "copy")
    (tmp_path / "state").rename(tmp_path / "moved")
    begin(script, "moved")
    assert str(tmp_path / "moved") in (tmp_path / "out" / "_millstream.mark").read_text()


def test_a_start_that_is_refused_marks_nothing(begin: Begin, tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="does not exist"):
        begin(STREAMS.replace("in/A", "in/C") + query("q", "path = 'out'"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("format = 'csv'", "format = 'csv' without a path; a csv sink needs it. Add it to WITH."),
        ("format = 'XML'", "format = 'xml' without a path"),
        ("FORMAT = 'orc', path = ''", "path = ''; a path names a folder"),
        ("format = 'delta'", "without a path or a table"),
        ("format = 'kafka', topic = 't'", "without kafka.bootstrap.servers"),
        ("format = 'kafka', kafka.bootstrap.servers = 'h:9'", "without a topic, or a column of that name"),
        ("format = 'cvs', path = 'out'", "format = 'cvs'; .* Did you mean \"csv\"?"),
        ("format = 'text', path = 'out'", "a line of text is one STRING column"),
        ("format = 'json', path = 'out', results = 'shared'", "results = 'shared' with format = 'json'"),
        ("compression = 'zip'", "compression = 'zip'; it is one of lz4"),
        ("format = 'json', path = 'out', compression = 'zstd'", "compression = 'zstd'; it is one of none, bzip2"),
    ],
)
def test_sinks_are_checked_before_anything_starts(begin: Begin, options: str, message: str) -> None:
    with pytest.raises(ScriptError, match=rf"query 'q', line 4, column 14: .*{message}"):
        begin(STREAMS + query("q", options))
    control = begin(STREAMS + query("other"))
    control.registry.ask("add", "q", query("q", options).rstrip(";"))
    assert not control.change(2)


@pytest.mark.parametrize(
    ("select", "options"),
    [
        (PAIR.replace("A.k, A.s", "A.s"), "format = 'text', path = 'out'"),
        (PAIR.replace("A.s", "A.s AS topic"), "format = 'kafka', kafka.bootstrap.servers = 'h:9'"),
        (PAIR.replace("A.k,", "A.k AS key,"), "format = 'kafka', kafka.bootstrap.servers = 'h:9', TOPIC = 't'"),
        (PAIR, "format = 'delta', Table = 'results'"),
        (PAIR, "format = 'com.example.Sink', anything = 1"),
        (PAIR, "format = 'noop'"),
    ],
)
def test_sinks_that_lack_nothing(begin: Begin, select: str, options: str) -> None:
    assert "q" in begin(STREAMS + query("q", options, select)).sinks.external


def test_no_query_is_called_as_the_folder_of_shared_rows(begin: Begin) -> None:
    with pytest.raises(ScriptError, match='a query named "Shared"; results/shared/ holds'):
        begin(STREAMS + query("Shared"))


def test_queries_share_a_path_only_if_they_write_alike(begin: Begin) -> None:
    shared = "format = 'csv', path = 'out', header = 'true'"
    begin(STREAMS + query("a", shared) + query("b", shared.replace("out", "./out/").replace("path", "Path")))
    for other in ("format = 'json', path = 'out'", "path = 'out'", "format = 'csv', path = 'out'"):
        with pytest.raises(ScriptError, match=r"query 'b', .* b and a write to '.*/out' in different ways"):
            begin(STREAMS + query("a", shared) + query("b", other), "other")


def test_compression_goes_to_the_writer(begin: Begin) -> None:
    control = begin(STREAMS + query("q", "format = 'json', path = 'out', compression = 'gzip'"))
    assert ("compression", "gzip") in control.sinks.external["q"].options


def test_names_of_queries_in_another_case(begin: Begin) -> None:
    control = begin(STREAMS + query("Mixed"))
    control.registry.ask("add", "MIXED", query("MIXED").rstrip(";"))
    assert not control.change(2)
    control.registry.ask("drop", "mixed")
    assert control.change(3)
    assert not control.in_force.queries


class AtOnce:
    """An inbox whose changes a batch takes up before whoever asked goes on."""

    def __init__(self, control: Control) -> None:
        self._control, self._ask = control, control.registry.ask

    def __call__(self, action: str, name: str, text: str = "", *, ticket: str | None = None) -> str:
        ticket = self._ask(action, name, text, ticket=ticket)
        self._control.change(7)
        return ticket


def test_a_callback_is_known_before_its_query(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = begin(STREAMS + query("other"))
    pipeline = Pipeline("test", tmp_path / "state")
    pipeline._control = control
    monkeypatch.setattr(control.registry, "ask", AtOnce(control))
    got: list[Any] = []
    pipeline.query("q", PAIR, sink=lambda *given: got.append(given))
    assert control.sinks.takes("q"), "the first batch of the query already hands its rows over"
    with pytest.raises(MillstreamError, match="is there already"):
        pipeline.query("Q", PAIR)
    assert control.sinks.takes("q"), "a query that is refused takes nothing from the one that is there"
    pipeline.drop("Q")
    pipeline.query("q", PAIR)
    assert not control.sinks.takes("q"), "a callback goes with its query"


def test_a_callback_whose_query_is_refused_is_forgotten(begin: Begin) -> None:
    control = begin(STREAMS + query("other"))
    ticket = control.registry.ask("add", "q", query("q").replace("A.k,", "A.nothing,"))
    control.coming[ticket] = lambda *_: None
    assert not control.change(2)
    assert not control.callbacks
    assert not control.coming
