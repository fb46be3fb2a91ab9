"""A manifest that leaves something out is never committed; a failure with nobody to blame is tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, SegmentEntry
from millstream.errors import InternalError
from millstream.pipeline.follows import check_follows
from millstream.pipeline.manifest import Manifest, SlotManifest


def segment(number: int, rows: int, batch: int = 1) -> SegmentEntry:
    return SegmentEntry(
        number=number,
        name=f"s{number}",
        side="left",
        batch=batch,
        reach=60,
        rows=rows,
        nbytes=8 * rows,
        first=0,
        last=1,
    )


CHAIN = ChainManifest(numbered=2, taken=10, expired=1, segments=(segment(1, 4), segment(2, 5)))
BEFORE = Manifest(batch=1, pipeline="p", routing=(0, 1), slots={n: SlotManifest("t", {"c": CHAIN}) for n in (0, 1)})
AFTER = replace(BEFORE, batch=2)


def with_chain(**changes: Any) -> Manifest:
    return replace(AFTER, slots={**AFTER.slots, 1: SlotManifest("u", {"c": replace(CHAIN, **changes)})})


def test_what_follows_is_let_through() -> None:
    check_follows(BEFORE, AFTER, ["c"])
    merged = with_chain(numbered=4, taken=12, expired=6, segments=(segment(4, 6, 2),))
    check_follows(BEFORE, merged, ["c"])
    check_follows(BEFORE, replace(AFTER, slots={n: SlotManifest("t", {}) for n in (0, 1)}), [])
    new = replace(AFTER, slots={n: SlotManifest("t", {"c": CHAIN, "d": ChainManifest()}) for n in (0, 1)})
    check_follows(BEFORE, new, ["c", "d"])


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (replace(AFTER, slots={0: AFTER.slots[0]}), r"slots \[0\] have reported"),
        (replace(AFTER, slots={**AFTER.slots, 1: SlotManifest("u", {})}), "slot 1 has told of 0 chains, of 1"),
        (replace(AFTER, slots={**AFTER.slots, 1: SlotManifest("", {"c": CHAIN})}), "slot 1 has told"),
        (replace(AFTER, batch=3), "it follows batch 1"),
        (with_chain(numbered=0, taken=0, expired=0, segments=()), "segments were 2 and are 0"),
        (with_chain(segments=(segment(2, 5),)), "hold 5 rows, of 10 taken in and 1 expired"),
        (with_chain(taken=9), "rows taken in were 10 and are 9"),
        (with_chain(numbered=3, segments=(segment(1, 4), segment(3, 5, batch=3))), "s3 is of no batch up to now"),
        (with_chain(ledger=(DeferredUnit(probe=9, state=1, lo=0, hi=5),)), "work waits for segments that are gone"),
    ],
)
def test_what_does_not_follow_is_refused(after: Manifest, why: str) -> None:
    with pytest.raises(InternalError, match=why):
        check_follows(BEFORE, after, ["c"])
