"""What goes wrong before and between batches: paths, locks, schemas, half-written batches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.errors import PipelineFailed, ScriptError
from millstream.pipeline import Pipeline
from millstream.pipeline.sealed import sealed, unsealed
from millstream.testing import run
from two_streams import BATCHES, PAIR, START, STREAMS, same

SCRIPT = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS; CREATE QUERY r AS {PAIR} WINDOW 3 SECONDS;"


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
        for pool in slot["pools"]
        for entry in pool["segments"]
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


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "in [1]"
    folder.mkdir()
    script = f"CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts', path = '{folder}');"
    script += "CREATE QUERY q AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 1 SECOND;"
    good = pa.table({"k": pa.array([1], pa.int32()), "Ts": pa.array([START], pa.timestamp("us", "UTC"))})
    pq.write_table(good, folder / "1.parquet")
    whole = (folder / "1.parquet").read_bytes()
    (folder / "2.parquet").write_bytes(whole[:-20])
    mill = Pipeline("test", tmp_path / "state", script=script)
    with pytest.raises(PipelineFailed) as caught:
        mill.drain()
    said = str(caught.value)
    assert said.startswith(f"the file '{folder}/2.parquet' cannot be read: it is not a Parquet file."), said
    assert "\n" not in said
    (folder / "2.parquet").write_bytes(whole)
    mill = Pipeline("test", tmp_path / "state", script=script)
    mill.drain()
    assert len(mill.results("q")) == 4
    for name in ("3[a].parquet", "4.parquet"):
        (folder / name).write_bytes(whole)
    mill = Pipeline("test", tmp_path / "state", script=script)
    with pytest.raises(PipelineFailed, match=r"the file '3\[a\]\.parquet' has one of .* Rename it") as refused:
        mill.drain()
    for note in re.findall(r"'(/[^']+)'", str(refused.value)):
        Path(note).unlink()
    (folder / "3[a].parquet").rename(folder / "3.parquet")
    mill = Pipeline("test", tmp_path / "state", script=script)
    mill.drain()
    assert len(mill.results("q")) == 16


def test_state_of_another_version(mill: Callable[..., Any], tmp_path: Path) -> None:
    first = mill(SCRIPT)
    first.put(BATCHES[0])
    first.pipeline.drain()
    newest = max((tmp_path / "state" / "manifest").glob("*.json"))
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "version": 99}))
    with pytest.raises(ScriptError, match="written in format 99; this Millstream reads format 4"):
        mill(SCRIPT).pipeline.drain()
