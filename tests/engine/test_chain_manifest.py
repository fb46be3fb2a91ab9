"""A saved chain comes back as it was, from JSON too."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, HeldEntry

counts, times = st.integers(0, 2**40), st.integers(-(2**62), 2**62)
lookups = st.lists(st.lists(counts, max_size=3).map(tuple), max_size=3).map(tuple)
units = st.builds(DeferredUnit, probe=counts, at=st.integers(0, 4), lookup=lookups, lo=times, hi=times)
manifests = st.builds(
    ChainManifest,
    began_after=counts,
    floors=st.dictionaries(st.text(), times, max_size=3),
    ledger=st.lists(units, max_size=3).map(tuple),
    held=st.lists(st.builds(HeldEntry, query=st.text(), since=counts, name=st.text()), max_size=3).map(tuple),
)

FORMAT_4 = """
{"began_after": 4, "floors_us": {"[\\"B\\",[],[],true,\\"\\"]": -1000000},
 "ledger": [[7, 2, [[6], [3, 4]], -1999999, 2000000], [7, 0, [[6]], 0, 1]],
 "held": [{"query": "q", "since": 2, "name": "p-held-q-1a-0000beef"}]}
"""
"""As manifests of format 4 hold it: a directory of before must go on after an update."""


@settings(max_examples=50)
@given(manifests)
def test_a_chain_comes_back_from_json(manifest: ChainManifest) -> None:
    assert ChainManifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


def test_what_format_4_says_is_read_and_written_as_ever() -> None:
    manifest = ChainManifest(
        began_after=4,
        floors={'["B",[],[],true,""]': -1_000_000},
        ledger=(
            DeferredUnit(probe=7, at=2, lookup=((6,), (3, 4)), lo=-1_999_999, hi=2_000_000),
            DeferredUnit(probe=7, at=0, lookup=((6,),), lo=0, hi=1),
        ),
        held=(HeldEntry(query="q", since=2, name="p-held-q-1a-0000beef"),),
    )
    assert ChainManifest.from_json(json.loads(FORMAT_4)) == manifest
    assert json.loads(json.dumps(manifest.to_json())) == json.loads(FORMAT_4)


def test_a_chain_with_nothing_to_say_is_one_that_has_just_begun() -> None:
    assert ChainManifest.from_json(ChainManifest().to_json()) == ChainManifest()
