"""The registry: what is in force after scripts, additions, drops and failures, in any order."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.engine.files import Files
from millstream.errors import ScriptError
from millstream.pipeline.registry import Entry, InForce, Registry
from millstream.pipeline.sealed import sealed

STREAMS = "CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts');\nSET slicing = 'memory'"


def query(name: str, window: int = 1) -> str:
    return f"CREATE QUERY {name} AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW {window} SECONDS"


def after(*entries: Entry) -> InForce:
    found = InForce()
    for entry in entries:
        found = found.after(entry)
    return found


def script(*queries: str) -> str:
    return ";\n".join((STREAMS, *queries)) + ";\n"


def since(found: InForce) -> dict[str, int]:
    return {name: one.since for name, one in found.queries.items()}


def test_queries_are_seen_from_the_batch_they_came_with() -> None:
    found = after(
        Entry("script", 1, text=script(query("a"), query("b"))),
        Entry("add", 5, text=query("c"), query="c"),
        Entry("drop", 7, query="a"),
        Entry("add", 9, text=query("a", 2), query="a"),
    )
    assert since(found) == {"b": 1, "c": 5, "a": 9}
    assert found.count == 4
    assert found.text().count("CREATE QUERY") == 3
    assert found.declarations == ("CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts')", "SET slicing = 'memory'")


def test_an_edited_script_changes_only_what_differs() -> None:
    found = after(
        Entry("script", 1, text=script(query("stays"), query("goes"), query("changes"), query("dropped"))),
        Entry("add", 2, text=query("live"), query="live"),
        Entry("drop", 3, query="dropped"),
        Entry(
            "script",
            8,
            text=script(query("new"), "  ".join(query("stays").split(" ")), query("changes", 2), query("dropped")),
        ),
    )
    assert since(found) == {"stays": 1, "changes": 8, "new": 8, "live": 2}


def test_what_stands_in_quotes_makes_another_query() -> None:
    one = "CREATE QUERY q AS SELECT x.k FROM A x, A y WHERE x.k = y.k AND x.s = 'a b' WINDOW 1 SECOND"
    begun = after(Entry("script", 1, text=script(one)))
    assert since(begun.after(Entry("script", 4, text=script(one.replace("'a b'", "'a  b'"))))) == {"q": 4}
    assert since(begun.after(Entry("script", 4, text=script(one.replace(" AND ", " /* as\nbefore */ and "))))) == {
        "q": 1
    }


def test_a_name_is_one_name_whatever_its_letters_case() -> None:
    begun = after(Entry("script", 1, text=script(query("a"))), Entry("add", 2, text=query("Live"), query="Live"))
    assert begun.find("LIVE") == "Live"
    assert begun.find("other") is None
    assert since(begun.after(Entry("drop", 3, query="lIVE"))) == {"a": 1}
    assert since(begun.after(Entry("script", 3, text=script(query("A"), query("live"))))) == {"A": 3, "live": 3}
    failed = begun.after(Entry("fail", 3, query="Live", error="it broke"))
    assert failed.after(Entry("add", 4, text=query("live"), query="live")).failed == {}


def test_the_first_entry_says_whose_a_directory_is_and_from_where_paths_count() -> None:
    found = after(
        Entry("script", 1, text=script(query("a")), base="/here", owner="me"),
        Entry("script", 2, text=script(query("b")), base="/there", owner="another"),
    )
    assert (found.base, found.owner) == ("/here", "me")


def test_a_query_that_failed_stays_stopped_until_it_changes() -> None:
    begun = Entry("script", 1, text=script(query("a"), query("b"))), Entry("fail", 4, query="a", error="it broke")
    found = after(*begun)
    assert since(found) == {"b": 1}
    assert found.failed == {"a": "it broke"}
    again = found.after(Entry("script", 6, text=script(query("a"), query("b"), query("c"))))
    assert since(again) == {"b": 1, "c": 6}
    assert again.failed == {"a": "it broke"}
    changed = found.after(Entry("script", 6, text=script(query("a", 2), query("b"))))
    assert since(changed) == {"b": 1, "a": 6}
    assert changed.failed == {}
    assert since(found.after(Entry("add", 6, text=query("a"), query="a"))) == {"b": 1, "a": 6}


def test_entries_and_the_inbox_are_files(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    files.make("inbox")
    registry = Registry(files)
    registry.record(1, Entry("script", 1, text=script(query("a"))))
    registry.record(2, Entry("drop", 2, query="a"))
    assert registry.in_force() == after(Entry("script", 1, text=script(query("a"))), Entry("drop", 2, query="a"))
    names = [registry.ask("add", name, query(name)) for name in ("x", "y", "z")]
    assert [(name, entry.query) for name, entry in registry.waiting()] == list(zip(names, "xyz", strict=True))
    registry.take_out(names[0])
    assert not registry.is_waiting(names[0])
    assert [entry.query for _, entry in registry.waiting()] == ["y", "z"]


def a_registry(place: Path) -> Registry:
    files = Files.at(place)
    files.make("inbox")
    registry = Registry(files)
    registry.record(1, Entry("script", 1, text=script(query("a"), query("b"))))
    registry.record(2, Entry("drop", 2, query="a"))
    return registry


DAMAGED = [None, b"", b"{", b"\xff\xfe", b'{"action":"drop","batch":2,"query":"b"}']


@pytest.mark.parametrize("content", DAMAGED)
@pytest.mark.parametrize("name", ["000002.json", "copies/000002.json"])
def test_an_entry_is_restored_from_its_copy(tmp_path: Path, name: str, content: bytes | None) -> None:
    registry, said = a_registry(tmp_path), []
    before, checksum = registry.in_force(), registry.checksum(2)
    damage(tmp_path / name, content)
    assert registry.in_force() == before
    registry.mend(said.append)
    assert len(said) == (1 if name == "000002.json" else 0)
    (tmp_path / ("copies/000002.json" if name == "000002.json" else "000002.json")).unlink()
    assert registry.in_force() == before, "both were there again"
    assert registry.checksum(2) == checksum


@pytest.mark.parametrize("content", DAMAGED)
def test_an_entry_that_is_lost_twice_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    registry = a_registry(tmp_path)
    for name in ("000001.json", "copies/000001.json"):
        damage(tmp_path / name, content)
    with pytest.raises(ScriptError, match=r"000001\.json: the file .*; of its copy in copies/: .*; the entries .* Put"):
        registry.in_force()


def test_the_checksum_knows_every_entry(tmp_path: Path) -> None:
    registry = a_registry(tmp_path)
    before = registry.checksum(2)
    registry.record(2, Entry("drop", 2, query="b"))
    assert registry.checksum(2) != before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"action":"drop","batch":0,"query":"b"}',
        sealed({"action": "explode", "batch": 0, "query": "b"}),
        sealed({"action": "script", "batch": 0, "text": ""}),
        sealed({"action": "drop", "batch": 0, "query": 7}),
        sealed({"action": "drop", "batch": "soon", "query": "b"}),
        sealed({"action": "drop", "batch": 0, "query": "b", "more": 1}),
        sealed({"query": "b"}),
    ],
)
def test_what_makes_no_sense_in_the_inbox_is_set_aside(tmp_path: Path, content: bytes) -> None:
    registry, said = a_registry(tmp_path), []
    good = registry.ask("drop", "b")
    bad = "00000000000000000001-aaaaaa.json"
    (tmp_path / "inbox" / bad).write_bytes(content)
    assert [name for name, _ in registry.waiting()] == [good]
    assert registry.is_asked()
    registry.waiting(said.append)
    assert len(said) == 1
    assert f"inbox/{bad}" in said[0]
    assert (tmp_path / "inbox" / f"{bad}.damaged").read_bytes() == content
    assert not registry.is_waiting(bad)
    assert registry.refusal(bad), "whoever asked is told"
    assert [name for name, _ in registry.waiting()] == [good]


def test_files_of_other_names_are_neither_entries_nor_changes(tmp_path: Path) -> None:
    registry, said = a_registry(tmp_path), []
    before = registry.in_force()
    strays = [".DS_Store", "notes.json", "000001.json~", "3.json", "inbox/notes.json", "inbox/.DS_Store", "copies/x"]
    for name in strays:
        (tmp_path / name).write_bytes(b"\xff mine")
    (tmp_path / "inbox" / "00000000000000000001-aaaaaa.json").mkdir()
    assert registry.in_force() == before
    assert registry.waiting() == []
    assert not registry.is_asked()
    registry.waiting(said.append)
    registry.mend(said.append)
    assert said == []
    assert all((tmp_path / name).read_bytes() == b"\xff mine" for name in strays)


def damage(path: Path, content: bytes | None) -> None:
    path.unlink() if content is None else path.write_bytes(content)
