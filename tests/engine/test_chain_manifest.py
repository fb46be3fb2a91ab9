"""A saved chain comes back as it was, from JSON too, and so does one that was written before."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, HeldEntry, SegmentEntry
from millstream.engine.files import Stamp

counts, times = st.integers(0, 2**40), st.integers(-(2**62), 2**62)
stamps = st.lists(st.builds(Stamp, counts, counts), max_size=2).map(tuple)
entries = st.builds(
    SegmentEntry,
    number=counts,
    name=st.text(),
    side=st.sampled_from(["left", "right"]),
    batch=counts,
    reach=times,
    rows=counts,
    nbytes=counts,
    first=times,
    last=times,
    stamps=stamps,
)
units = st.builds(DeferredUnit, probe=counts, state=counts, lo=times, hi=times)
manifests = st.builds(
    ChainManifest,
    numbered=counts,
    taken=counts,
    expired=counts,
    segments=st.lists(entries, max_size=3).map(tuple),
    ledger=st.lists(units, max_size=3).map(tuple),
    held=st.lists(st.builds(HeldEntry, query=st.text(), since=counts, name=st.text()), max_size=3).map(tuple),
)

FORMAT_2 = """
{"numbered": 7, "taken": 12, "expired": 5,
 "segments": [{"number": 7, "name": "p-1-7", "side": "right", "batch": 3, "reach": -2, "rows": 7, "nbytes": 640,
               "first": -1000000, "last": 2500000,
               "stamps": [{"size": 1234, "crc": 4294967295}, {"size": 99, "crc": 0}]}],
 "ledger": [[7, 6, -1999999, 2000000]],
 "held": [{"query": "q", "since": 2, "name": "p-held-q-1a-0000beef"}]}
"""
"""As manifests of format 2 hold it: a directory of before must go on after an update."""


@settings(max_examples=50)
@given(manifests)
def test_a_chain_comes_back_from_json(manifest: ChainManifest) -> None:
    assert ChainManifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


def test_what_format_2_says_is_read_and_written_as_ever() -> None:
    manifest = ChainManifest(
        numbered=7,
        taken=12,
        expired=5,
        segments=(
            SegmentEntry(
                number=7,
                name="p-1-7",
                side="right",
                batch=3,
                reach=-2,
                rows=7,
                nbytes=640,
                first=-1_000_000,
                last=2_500_000,
                stamps=(Stamp(1234, 2**32 - 1), Stamp(99, 0)),
            ),
        ),
        ledger=(DeferredUnit(probe=7, state=6, lo=-1_999_999, hi=2_000_000),),
        held=(HeldEntry(query="q", since=2, name="p-held-q-1a-0000beef"),),
    )
    assert ChainManifest.from_json(json.loads(FORMAT_2)) == manifest
    assert json.loads(json.dumps(manifest.to_json())) == json.loads(FORMAT_2)
