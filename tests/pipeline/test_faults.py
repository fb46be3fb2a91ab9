"""What goes wrong before and between batches: paths, locks, schemas, half-written batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millstream.errors import ScriptError
from millstream.pipeline import Pipeline
from millstream.pipeline.directory import Directory
from millstream.pipeline.sealed import sealed, unsealed
from millstream.testing import run

START = datetime(2024, 1, 1, tzinfo=UTC)
STREAMS = """
CREATE STREAM A (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
"""
PAIR = "SELECT A.k, A.v AS av, B.v AS bv FROM A, B WHERE A.k = B.k"
SCRIPT = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS; CREATE QUERY r AS {PAIR} WINDOW 3 SECONDS;"
BATCHES = [
    {
        name: [{"k": n % 3, "v": n + shift, "Ts": START + timedelta(seconds=10 * batch + n)} for n in range(12)]
        for name, shift in (("A", 0.0), ("B", 0.5))
    }
    for batch in range(3)
]


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    script = SCRIPT.replace("time = 'Ts'", f"path = '{tmp_path}/nowhere', time = 'Ts'")
    with pytest.raises(ScriptError, match=r"stream A reads '.*/nowhere', which does not exist"):
        Pipeline("test", tmp_path / "state", script=script).drain()
    with pytest.raises(ScriptError, match="stream A has no path"):
        Pipeline("test", tmp_path / "state", script=SCRIPT).drain()


def test_a_format_spark_does_not_know(tmp_path: Path) -> None:
    script = SCRIPT.replace("time = 'Ts'", "format = 'pigeon', time = 'Ts'")
    with pytest.raises(ScriptError, match=r"Spark cannot read stream A: .*pigeon"):
        Pipeline("test", tmp_path / "state", script=script).drain()


def test_files_that_do_not_fit_the_declaration(mill: Callable[..., Any]) -> None:
    first = mill(SCRIPT)
    first.put(BATCHES[0])
    with pytest.raises(ScriptError, match=r"A\.v is DOUBLE in the files; it is declared as STRING"):
        mill(SCRIPT.replace("v DOUBLE", "v STRING")).pipeline.drain()


def test_a_directory_in_use(mill: Callable[..., Any], tmp_path: Path) -> None:
    directory = Directory.at(tmp_path / "state")
    directory.make()
    with directory.locked(), pytest.raises(ScriptError, match=r"a pipeline is running here \(process \d+\)"):
        mill(SCRIPT).pipeline.drain()
    assert not directory.is_running()


def test_state_of_another_version(mill: Callable[..., Any], tmp_path: Path) -> None:
    first = mill(SCRIPT)
    first.put(BATCHES[0])
    first.pipeline.drain()
    newest = max((tmp_path / "state" / "manifest").glob("*.json"))
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "version": 99}))
    with pytest.raises(ScriptError, match="written in format 99; this Millstream reads format 2"):
        mill(SCRIPT).pipeline.drain()


def test_what_batches_that_never_happened_left_is_swept_away(mill: Callable[..., Any], tmp_path: Path) -> None:
    first = mill(SCRIPT)
    first.put(BATCHES[0])
    first.pipeline.drain()
    state = tmp_path / "state"
    (state / "segments" / "00000009-000-aaaaaaaaaa-0-1.arrow").write_bytes(b"half")
    (state / "results" / "q" / ".0123abcd-00000009-000-0.aaaaaaaaaa").write_bytes(b"half")
    (state / "results" / "q" / ".mine").write_bytes(b"a file of the user's own")
    second = mill(SCRIPT)
    second.put(BATCHES[1])
    second.pipeline.drain()
    assert not list(state.glob("segments/00000009*"))
    assert {path.name for path in (state / "results" / "q").glob(".*")} == {".mine"}
    expected = run(SCRIPT, {name: [batch[name] for batch in BATCHES[:2]] for name in "AB"})
    for name in "qr":
        same(second.results(name), expected[name].to_pylist())


def test_publishing_is_finished_after_a_crash_in_the_middle(mill: Callable[..., Any], tmp_path: Path) -> None:
    """The manifest is there, but result files still have their staged names: as after a kill just then."""
    first = mill(SCRIPT)
    first.put(BATCHES[0])
    first.pipeline.drain()
    state = tmp_path / "state"
    newest = max((state / "manifest").glob("*.json"))
    saved = unsealed(newest.read_bytes(), str(newest))
    before = first.results("q"), first.results("r")
    manifest = json.loads((state / "manifest" / "000000000001.json").read_text())
    for output in manifest["outputs"]:
        places = [Path(final["folder"]) / final["name"] for final in output["finals"]]
        places[0].rename(Path(output["folder"]) / output["staged"])
        for place in places[1:]:
            place.unlink()
    saved["outputs"] = manifest["outputs"]
    newest.write_bytes(sealed(saved))
    assert first.results("q") == []
    again = mill(SCRIPT)
    again.pipeline.drain()
    same(again.results("q"), before[0])
    same(again.results("r"), before[1])


def test_segments_nobody_needs_are_deleted(mill: Callable[..., Any], tmp_path: Path) -> None:
    found = mill(SCRIPT)
    for batch in BATCHES:
        found.put(batch)
    found.pipeline.drain()
    kept = [json.loads(path.read_text()) for path in (tmp_path / "state" / "manifest").glob("*.json")]
    named = {
        f"{entry['name']}{ending}"
        for manifest in kept
        for slot in manifest["slots"].values()
        for chain in slot["chains"]
        for entry in chain["segments"]
        for ending in (".arrow", ".index.arrow")
    }
    assert named == {path.name for path in (tmp_path / "state" / "segments").iterdir()}
    assert len(kept) == 3


def test_files_of_somebody_else_are_neither_read_nor_deleted(mill: Callable[..., Any], tmp_path: Path) -> None:
    first = mill(SCRIPT)
    first.put(BATCHES[0])
    first.pipeline.drain()
    state = tmp_path / "state"
    folders = (
        "",
        "manifest",
        "registry",
        "registry/inbox",
        "registry/copies",
        "segments",
        "results",
        "results/q",
        "late",
    )
    names = ("notes.txt", ".DS_Store", "000001.json~", "q-mine.parquet", "x.parquet", "x.arrow", "7.json", ".x.swp")
    strays = [state / folder / name for folder in folders for name in names]
    for path in strays:
        path.write_bytes(b"\xff mine")
    for name in ("manifest/000000000003.json", "registry/000002.json", "registry/copies/000002.json"):
        (state / name).mkdir()
        (state / name / "mine").write_bytes(b"\xff mine")
    second = mill(SCRIPT)
    second.put(BATCHES[1])
    second.pipeline.drain()
    expected = run(SCRIPT, {name: [batch[name] for batch in BATCHES[:2]] for name in "AB"})
    for name in "qr":
        same(second.results(name), expected[name].to_pylist())
    assert all(path.read_bytes() == b"\xff mine" for path in strays)
    assert len(list(state.rglob("*.damaged/mine"))) == 3
    assert sum("is a folder where a file belongs; it is set aside" in said for said in second.said) == 3


def test_a_file_in_the_place_of_a_folder_of_results(mill: Callable[..., Any], tmp_path: Path) -> None:
    found = mill(SCRIPT)
    found.put(BATCHES[0])
    (tmp_path / "state" / "results").mkdir(parents=True)
    (tmp_path / "state" / "results" / "q").write_text("mine")
    with pytest.raises(
        ScriptError, match=r"results/q: there is a file where a folder of results belongs; every .* Move"
    ):
        found.pipeline.drain()
    assert (tmp_path / "state" / "results" / "q").read_text() == "mine"
