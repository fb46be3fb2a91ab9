"""What pools hold, how much they may, and from which time on, from the reports of slots."""

from __future__ import annotations

import pytest

from millstream.compile import compile_script
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.pipeline.holding import Lines, allowed, pools_held
from millstream.pipeline.slot import SlotReport
from two_streams import PAIR, STREAMS

S = 1_000_000
PLAN = compile_script(
    f"{STREAMS} CREATE QUERY w AS {PAIR} WINDOW 60 SECONDS; CREATE QUERY n AS {PAIR} WINDOW 5 SECONDS;"
)
A, B = (pool.name for pool in PLAN.pools)


def entry(nbytes: int, first: int, last: int, reach: int = 60) -> SegmentEntry:
    return SegmentEntry(
        number=1, name="1", batch=1, reach=reach * S, rows=1, nbytes=nbytes, first=first * S, last=last * S
    )


def report(slot: int, executor: str, a: list[SegmentEntry], b: list[SegmentEntry], watermark: int = 90) -> SlotReport:
    pools = {name: PoolManifest(watermark=watermark * S, segments=tuple(some)) for name, some in ((A, a), (B, b))}
    return SlotReport(slot=slot, task=slot, token=f"t{slot}", executor=executor, state=ShardManifest(pools=pools))


def test_the_fullest_executor_says_how_much_is_allowed() -> None:
    even = [report(0, "x", [entry(50, 0, 1)], []), report(1, "y", [], [entry(50, 0, 1)])]
    assert allowed(300, even) == pytest.approx(400)
    assert allowed(300, [*even, report(2, "x", [entry(100, 0, 1)], [])]) == pytest.approx(200 * 200 / 150)
    assert allowed(300, [report(0, "x", [], [])]) == pytest.approx(200)


def test_bytes_a_second_by_how_long_rows_are_kept() -> None:
    reports = [
        report(0, "x", [entry(500, 50, 100), entry(100, 90, 100, reach=5)], []),
        report(1, "x", [entry(800, 60, 100)], []),
    ]
    held = pools_held(PLAN, reports, {"A": 100 * S, "B": 100 * S})
    assert set(held) == {A}, "B holds nothing"
    assert held[A].nbytes == 1_400
    assert held[A].behind == 10
    assert dict(held[A].parts) == pytest.approx({5.0: 10.0, 60.0: 30.0})
    assert held[A].seconds == pytest.approx((600 * 50 + 800 * 40) / 1_400)


def test_a_line_never_goes_back_and_what_is_there_from_before_it_counts() -> None:
    lines = Lines({})
    assert lines.floors(PLAN, []) == {"w": (None, None), "n": (None, None)}
    early = [report(0, "x", [entry(1, 20, 100)], []), report(1, "x", [entry(1, 95, 100)], [])]
    lines.cut({A: 10 * S}, early)
    assert lines.lines == {A: 80 * S}
    lines.cut({A: 50 * S}, early)
    assert lines.lines == {A: 80 * S}
    floors = lines.floors(PLAN, early)
    assert floors["w"] == ((20 * S + 80 * S) / 2, None)
    assert Lines(lines.lines).floors(PLAN, early) == floors
