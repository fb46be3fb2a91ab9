"""What a committed batch tells: sums over slots, weighted quantiles of response times, and how old the state is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.chain_manifest import ChainManifest, DeferredUnit
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.pipeline.progress import progress
from millstream.pipeline.slot import SlotReport
from millstream.pipeline.step import CommittedBatch
from millstream.plan.nodes import LEFT, RIGHT
from two_streams import PAIR, STREAMS

SECOND = 1_000_000
PLAN = compile_script(
    f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 10 SECONDS; CREATE QUERY r AS {PAIR} WINDOW 60 SECONDS;"
    " SET slicing = 'memory'; SET budget = '1 second';"
)
(CHAIN,) = PLAN.chains
AGES = st.sampled_from([0, 1, 9, 10, 11, 30, 59])
"""In seconds: at the cuts of the slices, and between them."""


def done(*reports: SlotReport, **changes: Any) -> CommittedBatch:
    """Batch 3, which came at 100 s, began at 101 s, was worked on for 2 s and published at 104 s."""
    slots = {one.slot: SlotManifest(one.token, one.state) for one in reports}
    whole = CommittedBatch(
        manifest=Manifest(batch=3, greatest={"A": 90 * SECOND}, slots=slots),
        plan=PLAN,
        reports=reports,
        watermarks={},
        arrived={2: 98 * SECOND, 3: 100 * SECOND},
        adaptation="",
        short="",
        began=101.0,
        worked=103.0,
        committed=103.5,
        published=104.0,
    )
    return replace(whole, **changes)


Placed = tuple[int, SegmentEntry]
"""A segment of the pool at a position."""


def report(slot: int, *segments: Placed, deferred: int = 0, owing: int = 0, **told: Any) -> SlotReport:
    pools = {
        name: PoolManifest(segments=tuple(one for at, one in segments if at == position))
        for position, name in enumerate(CHAIN.pools)
    }
    unit = DeferredUnit(probe=1, at=LEFT, lookup=((1,),), lo=0, hi=1)
    chains = {CHAIN.signature: ChainManifest(ledger=(unit,) * deferred)}
    state = ShardManifest(pools=pools, chains=chains, owing=owing)
    return SlotReport(slot=slot, task=slot, token=f"run {slot}", state=state, **told)


def segment(
    position: int, rows: int, first: int, last: int, hidden_from: tuple[str, ...] = (), *, on_disk: bool = False
) -> Placed:
    return position, SegmentEntry(
        number=1,
        name="s",
        batch=1,
        reach=60,
        rows=rows,
        nbytes=8 * rows,
        first=first,
        last=last,
        hidden_from=hidden_from,
        on_disk=on_disk,
    )


def test_slots_are_added_up_and_the_slowest_is_timed() -> None:
    one = report(0, rows_in={"A": 3, "B": 1}, late={"A": 1}, deferred=2, seconds={"read": 0.25, "join": 0.25})
    two = report(1, rows_in={"A": 4}, late={"B": 5}, deferred=7, seconds={"read": 0.5, "write": 1.0})
    found = progress(done(one, two), held_back=True, delivered=0.25)
    assert (found.batch, found.deferred, found.held_back) == (3, 9, True)
    assert found.rows_in == {"A": 7, "B": 1}
    assert found.late == {"A": 1, "B": 5}
    slowest = {"read": 0.5, "restore": 0.0, "join": 0.0, "write": 1.0}
    assert found.split == {**slowest, "spark": 0.5, "commit": 1.0, "deliver": 0.25}
    assert found.seconds == sum(found.split.values()) == 3.25
    assert found.lag_seconds == {"A": 13.5}
    assert found.committed == 103.5


def test_a_response_is_from_the_arrival_to_the_commit() -> None:
    """Rows of an unknown batch, held for their order past a restart, count from the batch that lets them out."""
    found = progress(done(report(0, served={("q", 2): 1, ("r", 3): 2}), report(1, served={("r", 1): 1})))
    assert {name: (one.rows, one.median, one.p99) for name, one in found.queries.items()} == {
        "q": (1, 5.5, 5.5),
        "r": (3, 3.5, 3.5),
    }


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 60)), min_size=1, max_size=6, unique_by=lambda one: one[0])
)
def test_quantiles_weigh_every_row(waits: list[tuple[int, int]]) -> None:
    """As if each row were a number of its own."""
    arrived = {batch: (100 - wait) * SECOND for batch, (wait, _) in enumerate(waits)} | {3: 0}
    arrived |= {batch: (100 - wait) * SECOND for batch, (wait, _) in enumerate(waits)}
    served = {("q", batch): rows for batch, (_, rows) in enumerate(waits)}
    found = progress(done(report(0, served=served), arrived=arrived, committed=100.0)).queries["q"]
    every = np.repeat([wait for wait, _ in waits], [rows for _, rows in waits])
    assert found.rows == len(every)
    for share, value in ((0.5, found.median), (0.99, found.p99)):
        assert value == pytest.approx(np.quantile(every, share, method="inverted_cdf"))


@given(
    st.lists(
        st.tuples(st.sampled_from([LEFT, RIGHT]), st.integers(1, 500), AGES, AGES),
        max_size=5,
    )
)
def test_every_row_of_the_state_is_in_one_slice(entries: list[tuple[int, int, int, int]]) -> None:
    """Within the widest window no row is left out and none counts twice, also not at a cut."""
    now = segment(LEFT, 1, 60 * SECOND, 60 * SECOND)
    some = [segment(side, rows, (60 - max(ages)) * SECOND, (60 - min(ages)) * SECOND) for side, rows, *ages in entries]
    found = progress(done(report(0, now, *some[::2]), report(1, *some[1::2])))
    slices = found.slices["chain 1"]
    assert [one.interval for one in slices] == [piece.interval for piece in CHAIN.slices]
    assert found.state_rows == 1 + sum(one.rows for _, one in some)
    assert found.state_bytes == 8 * found.state_rows
    assert abs(sum(one.rows for one in slices) - found.state_rows) <= len(slices) / 2, "but for rounding"


@pytest.mark.parametrize(("side", "rows"), [(LEFT, [0, 1, 100]), (RIGHT, [100, 1, 0])])
def test_a_side_waits_on_its_own_side_of_the_axis(side: int, rows: list[int]) -> None:
    """A left row of age a waits for differences of a, a right row for -a."""
    old = segment(side, 100, 15 * SECOND, 30 * SECOND)
    found = progress(done(report(0, segment(RIGHT, 1, 60 * SECOND, 60 * SECOND), old)))
    assert [one.rows for one in found.slices["chain 1"]] == rows


def test_rows_that_are_hidden_from_a_chain_are_state_but_not_in_its_slices() -> None:
    old = segment(LEFT, 100, 15 * SECOND, 30 * SECOND, (CHAIN.signature,))
    found = progress(done(report(0, segment(RIGHT, 1, 60 * SECOND, 60 * SECOND), old)))
    assert [one.rows for one in found.slices["chain 1"]] == [0, 1, 0]
    assert found.state_rows == 101


def test_state_that_several_chains_read_is_counted_once() -> None:
    plan = compile_script(
        f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 10 SECONDS;"
        "CREATE QUERY s AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 5 SECONDS;"
        "CREATE QUERY t AS SELECT x.k FROM A x, A y, B WHERE x.k = y.k AND y.k = B.k WINDOW 5 SECONDS;"
    )
    a, b = (plan.pool(name) for name in plan.chains[-1].pools)
    assert len(plan.chains) == 3
    entry = segment(LEFT, 7, 0, 0)[1]
    state = ShardManifest(pools={a.name: PoolManifest(segments=(entry,)), b.name: PoolManifest()})
    found = progress(done(replace(report(0), state=state), plan=plan))
    assert (found.state_rows, found.state_bytes) == (7, 56)
    assert list(found.slices) == ["chain 1", "chain 2", "chain 3"]


def test_state_is_in_memory_or_on_disk_and_groups_owe_results() -> None:
    here = report(0, segment(LEFT, 5, 0, 0), segment(RIGHT, 3, 0, 0, on_disk=True), owing=0b101)
    there = report(1, segment(LEFT, 2, 0, 0, on_disk=True), owing=0b10)
    found = progress(done(here, there, adaptation="memory is not balanced"))
    assert (found.memory_bytes, found.disk_bytes, found.state_bytes) == (40, 40, 80)
    assert (found.owing, found.adaptation) == (3, "memory is not balanced")


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, 0),
        ({"memory": "2 kB"}, 4_000),
        ({"memory": "2 kB", "adaptation": "disk"}, 4_000),
        ({"memory": "2 kB", "adaptation": "move"}, 0),
        ({"memory": "2 kB", "adaptation": "none"}, 0),
    ],
    ids=str,
)
def test_the_limit_is_that_of_all_executors_where_it_is_kept(settings: dict[str, str], limit: int) -> None:
    plan = compile_script(f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 10 SECONDS;", settings=settings)
    reports = (report(slot, executor=executor) for slot, executor in enumerate(("a", "a", "b")))
    assert progress(done(*reports, plan=plan)).memory_limit == limit


def test_groups_that_have_just_moved_are_in_the_state() -> None:
    """The sender no longer reports them, and the receiver not yet: the manifest names them."""
    moved = report(1, segment(LEFT, 5, 0, 0), deferred=2, owing=0b10)
    manifest = Manifest(batch=3, slots={1: SlotManifest("after", moved.state)})
    found = progress(done(report(0), report(1), manifest=manifest))
    assert (found.state_rows, found.memory_bytes, found.deferred, found.owing) == (5, 40, 2, 1)
    assert sum(one.rows for one in found.slices["chain 1"]) == 5


def test_it_can_be_written_as_json() -> None:
    shown = json.loads(json.dumps(progress(done(report(0, segment(LEFT, 5, 0, SECOND)))).to_json()))
    assert shown["batch"] == 3
    assert [set(one) for one in shown["slices"]["chain 1"]] == [{"lo_us", "hi_us", "rows"}] * len(CHAIN.slices)
