"""A saved pool comes back as it was, from JSON too."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.engine.files import Stamp
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.watermark import NEVER

counts, times = st.integers(0, 2**40), st.integers(-(2**62), 2**62)
stamps = st.lists(st.builds(Stamp, counts, counts), max_size=2).map(tuple)
entries = st.builds(
    SegmentEntry,
    number=counts,
    name=st.text(),
    batch=counts,
    reach=times,
    rows=counts,
    nbytes=counts,
    first=times,
    last=times,
    hidden_from=st.lists(st.text(), max_size=2).map(tuple),
    stamps=stamps,
    groups=st.none() | st.integers(0, 2**70),
    on_disk=st.booleans(),
    retired=st.booleans(),
)
manifests = st.builds(
    PoolManifest, taken=counts, expired=counts, watermark=times, segments=st.lists(entries, max_size=3).map(tuple)
)

FORMAT_4 = """
{"taken": 12, "expired": 5, "watermark_us": 2000000,
 "segments": [{"number": 7, "name": "p-1-7", "batch": 3, "reach": -2, "rows": 7, "nbytes": 640,
               "first": -1000000, "last": 2500000, "hidden_from": ["[\\"A\\",\\"B\\"]"],
               "stamps": [{"size": 1234, "crc": 4294967295}, {"size": 99, "crc": 0}],
               "groups": "8000000000000000000a", "on_disk": true, "retired": false}]}
"""
"""As manifests of format 4 hold it: a directory of before must go on after an update."""


@settings(max_examples=50)
@given(manifests)
def test_a_pool_comes_back_from_json(manifest: PoolManifest) -> None:
    assert PoolManifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


def test_what_format_4_says_is_read_and_written_as_ever() -> None:
    entry = SegmentEntry(
        number=7,
        name="p-1-7",
        batch=3,
        reach=-2,
        rows=7,
        nbytes=640,
        first=-1_000_000,
        last=2_500_000,
        hidden_from=('["A","B"]',),
        stamps=(Stamp(1234, 2**32 - 1), Stamp(99, 0)),
        groups=2**79 + 2**3 + 2**1,
        on_disk=True,
    )
    manifest = PoolManifest(taken=12, expired=5, watermark=2_000_000, segments=(entry,))
    assert PoolManifest.from_json(json.loads(FORMAT_4)) == manifest
    assert json.loads(json.dumps(manifest.to_json())) == json.loads(FORMAT_4)


def test_an_empty_pool_has_seen_no_time() -> None:
    assert PoolManifest() == PoolManifest(taken=0, expired=0, watermark=NEVER, segments=())
