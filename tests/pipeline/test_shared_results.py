"""Rows that several queries get lie once, and either list of who has them can be made from the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from millstream.engine.files import DamagedFileError
from millstream.pipeline.shared_results import mend_shared, note_folders, note_queries, shared_folders
from two_streams import PAIR, STREAMS, expected, filled, same

NOTED = {"q": ["x", "y"], "r": ["y"], "s": ["z"]}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three shared folders of three queries, noted on both sides."""
    for folder in "xyz":
        note_queries(str(tmp_path / "shared" / folder), [name for name, some in NOTED.items() if folder in some])
    for name, folders in NOTED.items():
        note_folders(str(tmp_path), name, folders)
    return tmp_path


def listed(results: Path) -> dict[str, list[str]]:
    return {name: shared_folders(str(results / name)) for name in NOTED}


def test_what_is_whole_is_left_as_it_is(results: Path) -> None:
    before, said = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}, list[str]()
    mend_shared(str(results), said.append)
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before
    assert said == []
    assert listed(results) == NOTED
    assert shared_folders(str(results / "nobody")) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"folders": 3}', b"{}"])
def test_a_list_that_cannot_be_read_is_set_aside_and_made_anew(results: Path, content: bytes) -> None:
    path, said = results / "q" / "manifest.json", list[str]()
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match=rf"{path}: the list of a query's shared folders cannot be read"):
        shared_folders(str(results / "q"))
    mend_shared(str(results), said.append)
    assert listed(results) == NOTED
    assert path.with_name("manifest.json.damaged").read_bytes() == content
    assert len(said) == 1
    assert "made anew" in said[0]


def test_a_list_that_is_lost_or_lacks_a_folder_is_made_anew(results: Path) -> None:
    said: list[str] = []
    (results / "r" / "manifest.json").unlink()
    note_folders(str(results), "q", ["y", "kept"])
    mend_shared(str(results), said.append)
    assert listed(results) == {**NOTED, "q": ["kept", "x", "y"]}
    assert len(said) == 2
    assert any("it lacks x; the list" in one for one in said)


def test_a_folder_whose_note_is_damaged_changes_no_list(results: Path) -> None:
    said: list[str] = []
    (results / "shared" / "y" / ".queries").write_bytes(b"?")
    mend_shared(str(results), said.append)
    assert listed(results) == NOTED
    assert said == []


def test_shared_results_are_written_once_and_named_in_manifests(mill: Callable[..., Any], tmp_path: Path) -> None:
    script = f"{STREAMS} SET results = 'shared'; CREATE QUERY wide AS {PAIR} WINDOW 9 SECONDS;"
    script += f"CREATE QUERY narrow AS {PAIR} WINDOW 2 SECONDS; "
    script += f"CREATE QUERY own WITH (results = 'own') AS {PAIR} WINDOW 2 SECONDS;"
    found = filled(mill(script))
    found.pipeline.drain()
    for name, window in (("wide", 9), ("narrow", 2), ("own", 2)):
        same(found.results(name), expected(window))
    results = tmp_path / "state" / "results"
    by_hand = []
    for folder in json.loads((results / "narrow" / "manifest.json").read_text())["folders"]:
        by_hand += pyarrow.dataset.dataset(results / "narrow" / folder).to_table().to_pylist()
    same(by_hand, expected(2))
    rows = sum(pq.read_metadata(path).num_rows for path in results.glob("shared/*/*.parquet"))
    assert rows == len(expected(9)), "every pair is written once"
    assert not list(results.glob("narrow/*.parquet"))
