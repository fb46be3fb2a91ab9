"""What runs, and where its rows come from and go to: without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from begun import FROM_FILES, SELECT, Begin, query
from millstream.errors import MillstreamError, ScriptError
from millstream.pipeline import manifest as manifests
from millstream.pipeline.control import Control
from millstream.pipeline.manifest import Manifest
from millstream.pipeline.pipeline import Pipeline


def test_relative_paths_count_from_where_a_directory_was_begun(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = FROM_FILES + query("q", "path = 'out'") + query("j", "format = 'json', Path = './out/j/'")
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
    manifests.commit(first.directory.files.below("manifest"), Manifest(batch=1))
    moved = rf"stream A has changed: path was {tmp_path}/in/A and is /in/A\b"
    with pytest.raises(ScriptError, match=moved):
        begin(script.replace("'in/A'", "'/in/A'"), "../state")


def test_names_of_queries_in_another_case(begin: Begin) -> None:
    control = begin(FROM_FILES + query("Mixed"))
    control.registry.ask("add", "MIXED", query("MIXED").rstrip(";"))
    assert not control.change(2)
    control.registry.ask("drop", "mixed")
    assert control.change(3)
    assert not control.in_force.queries


class AtOnce:
    """An inbox whose changes a batch takes up before whoever asked goes on."""

    def __init__(self, control: Control) -> None:
        self._control, self._ask = control, control.registry.ask

    def __call__(self, action: str, name: str, text: str = "", **options: Any) -> str:
        ticket = self._ask(action, name, text, **options)
        self._control.change(7)
        return ticket


def test_a_callback_is_known_before_its_query(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = begin(FROM_FILES + query("other"))
    pipeline = Pipeline("test", tmp_path / "state")
    pipeline._control = control
    monkeypatch.setattr(control.registry, "ask", AtOnce(control))
    got: list[Any] = []
    pipeline.query("q", SELECT, sink=lambda *given: got.append(given))
    assert control.sinks.takes("q"), "the first batch of the query already hands its rows over"
    with pytest.raises(MillstreamError, match="is there already"):
        pipeline.query("Q", SELECT)
    assert control.sinks.takes("q"), "a query that is refused takes nothing from the one that is there"
    pipeline.drop("Q")
    pipeline.query("q", SELECT)
    assert not control.sinks.takes("q"), "a callback goes with its query"


def test_a_query_does_not_go_on_without_its_callback(begin: Begin) -> None:
    """Rows may wait for it, and nothing else would take them."""
    script = FROM_FILES + query("q") + query("other")
    place = begin(FROM_FILES + query("other")).directory
    first = Control(directory=place, callbacks={"q": lambda *_: None})
    first.check(script)
    first.begin(script, 2)
    assert [name for name, one in first.in_force.queries.items() if one.callback] == ["q"]
    with pytest.raises(ScriptError, match="no callback for q") as error:
        Control(directory=place).check(script)
    assert "millstream query drop" in error.value.todo
    with pytest.raises(ScriptError, match="no callback for q"):
        Control(directory=place).check(script + query("third"))
    Control(directory=place).check(FROM_FILES + query("other"))  # edited: the query is gone
    Control(directory=place).check(script.replace("1 MINUTE", "2 MINUTES"))  # and here it is another one
    Control(directory=place, callbacks={"q": print}).check(script)
    first.registry.ask("drop", "Q")
    Control(directory=place).check(script)


def test_a_callback_is_recorded_when_only_it_is_new(begin: Begin) -> None:
    script = FROM_FILES + query("q")
    control = begin(script)
    again = Control(directory=control.directory, callbacks={"q": print})
    again.check(script)
    again.begin(script, 5)
    assert again.in_force.queries["q"].callback
    assert again.in_force.queries["q"].since == 1, "it is the same query"
    assert again.registry.in_force() == again.in_force


def test_a_callback_that_ended_with_its_process_is_told(begin: Begin) -> None:
    control = begin(FROM_FILES + query("other"))
    ticket = control.registry.ask("add", "q", query("q"), callback=True)
    assert not control.change(2)
    assert "is gone" in str(control.registry.refusal(ticket))


def test_a_callback_whose_query_is_refused_is_forgotten(begin: Begin) -> None:
    control = begin(FROM_FILES + query("other"))
    ticket = control.registry.ask("add", "q", query("q").replace("A.k,", "A.nothing,"))
    control.coming[ticket] = lambda *_: None
    assert not control.change(2)
    assert not control.callbacks
    assert not control.coming
