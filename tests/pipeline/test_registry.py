"""The registry: what is in force after scripts, additions, drops and failures, in any order."""

from __future__ import annotations

from pathlib import Path

from millstream.engine.files import Files
from millstream.pipeline.registry import Entry, InForce, Registry

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
        Entry("script", 1, script(query("a"), query("b"))),
        Entry("add", 5, query("c"), "c"),
        Entry("drop", 7, query="a"),
        Entry("add", 9, query("a", 2), "a"),
    )
    assert since(found) == {"b": 1, "c": 5, "a": 9}
    assert found.count == 4
    assert found.text().count("CREATE QUERY") == 3
    assert found.declarations == ("CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts')", "SET slicing = 'memory'")


def test_an_edited_script_changes_only_what_differs() -> None:
    found = after(
        Entry("script", 1, script(query("stays"), query("goes"), query("changes"), query("dropped"))),
        Entry("add", 2, query("live"), "live"),
        Entry("drop", 3, query="dropped"),
        Entry(
            "script",
            8,
            script(query("new"), "  ".join(query("stays").split(" ")), query("changes", 2), query("dropped")),
        ),
    )
    assert since(found) == {"stays": 1, "changes": 8, "new": 8, "live": 2}


def test_a_query_that_failed_stays_stopped_until_it_changes() -> None:
    begun = Entry("script", 1, script(query("a"), query("b"))), Entry("fail", 4, query="a", error="it broke")
    found = after(*begun)
    assert since(found) == {"b": 1}
    assert found.failed == {"a": "it broke"}
    again = found.after(Entry("script", 6, script(query("a"), query("b"), query("c"))))
    assert since(again) == {"b": 1, "c": 6}
    assert again.failed == {"a": "it broke"}
    changed = found.after(Entry("script", 6, script(query("a", 2), query("b"))))
    assert since(changed) == {"b": 1, "a": 6}
    assert changed.failed == {}
    assert since(found.after(Entry("add", 6, query("a"), "a"))) == {"b": 1, "a": 6}


def test_entries_and_the_inbox_are_files(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    files.make("inbox")
    registry = Registry(files)
    registry.record(1, Entry("script", 1, script(query("a"))))
    registry.record(2, Entry("drop", 2, query="a"))
    assert registry.in_force() == after(Entry("script", 1, script(query("a"))), Entry("drop", 2, query="a"))
    names = [registry.ask("add", name, query(name)) for name in ("x", "y", "z")]
    assert [(name, entry.query) for name, entry in registry.waiting()] == list(zip(names, "xyz", strict=True))
    registry.take_out(names[0])
    assert not registry.is_waiting(names[0])
    assert [entry.query for _, entry in registry.waiting()] == ["y", "z"]
