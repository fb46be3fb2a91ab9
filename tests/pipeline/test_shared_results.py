"""Rows that several queries get lie once, and either list of who has them can be made from the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet as pq

from two_streams import PAIR, STREAMS, expected, filled, same


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
