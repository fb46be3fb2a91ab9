"""state-adapt on shards, small: whatever is spilled or moved, every result comes once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.engine.memory import MemoryLimit
from millstream.lab.papers.state_adapt.both import Both
from millstream.lab.papers.state_adapt.disk import Disk
from millstream.lab.papers.state_adapt.move import Move
from millstream.lab.papers.state_adapt.partitioned import Partitioned
from millstream.lab.papers.state_adapt.run import Outcome, Setup, skewed
from millstream.lab.workloads.join_ratio import JoinRatio, thirds
from millstream.pipeline.adaptation.decision import Thresholds

STREAMS = JoinRatio(ratios=thirds((4, 2, 1), 30), tuples=3_000, tuple_range=900, batches=15, groups=32)
THRESHOLDS = Thresholds(least=1, between=1)


@pytest.fixture(scope="module")
def whole() -> Outcome:
    return Setup(streams=STREAMS, strategy="none").run()


def limit_of(whole: Outcome, share: float) -> MemoryLimit:
    return MemoryLimit(nbytes=int(share * max(whole.memory()) * 1e6), inactive=3_600, room=0)


def test_without_a_limit_all_results_come_at_once(whole: Outcome) -> None:
    assert whole.running == STREAMS.results()
    assert whole.owed == whole.pushes == whole.moves == 0
    assert whole.so_far[-1] == sum(sample.results for sample in whole.samples)


@pytest.mark.parametrize("strategy", ["disk", "lazy_disk", "active_disk"])
def test_three_machines_give_every_result_once(whole: Outcome, strategy: str) -> None:
    limit = limit_of(whole, 0.2)
    table = skewed((4, 1, 1), 30)
    found = Setup(
        streams=STREAMS, strategy=strategy, table=table, limit=limit, thresholds=THRESHOLDS, estimated=10**9
    ).run()
    assert found.running + found.owed == STREAMS.results()
    assert found.pushes
    assert found.owed
    assert bool(found.moves) == (strategy != "disk")
    assert max(max(sample.memory) for sample in found.samples) <= limit.nbytes
    assert not any(sample.copied for sample in found.samples)


def test_moves_keep_memory_alike_and_copy_nothing(whole: Outcome) -> None:
    table = skewed((4, 1), 30)
    still, moved = (
        Setup(streams=STREAMS, strategy=strategy, table=table, thresholds=THRESHOLDS).run()
        for strategy in ("none", "move")
    )
    assert still.running == moved.running == whole.running
    assert moved.balance[-1] > 0.7 > still.balance[-1]
    assert sum(sample.moved for sample in moved.samples)
    assert not any(sample.copied for sample in moved.samples)


def test_the_least_productive_go_to_disk_first(whole: Outcome) -> None:
    limit = limit_of(whole, 0.5)
    low, high = (Setup(streams=STREAMS, limit=replace(limit, productive_first=first)).run() for first in (False, True))
    assert low.running > 1.5 * high.running
    assert low.owed < high.owed


def test_skewed_tables() -> None:
    assert skewed((4, 1, 1), 12) == (0,) * 8 + (1, 1) + (2, 2)
    assert skewed((1, 1), 3) == (0, 0, 1)


def figures(out: Path) -> dict[str, Callable[[], Iterator[str]]]:
    disk = Disk(out=out, tuples=1_600, batches=8)
    move = Move(out=out, tuples=2_400, batches=12, rounds=1)
    both = Both(out=out, tuples=2_400, batches=12)
    partitioned = Partitioned(out=out, tuples=1_600, batches=8, machines=(1, 3))
    return {
        "6": partitioned.figure_6,
        "7": partitioned.figure_7,
        "9": disk.figures_9_and_10,
        "11": disk.figure_11,
        "12": disk.figure_12,
        "14": move.figures_14_to_16,
        "17": move.figure_17,
        "20": both.figure_20,
        "21": both.figure_21,
    }


@pytest.mark.parametrize(
    ("figure", "claims"),
    [("6", 2), ("7", 3), ("9", 4), ("11", 4), ("12", 2), ("14", 6), ("17", 3), ("20", 4), ("21", 2)],
)
def test_figures_say_pass_or_fail_and_are_written(tmp_path: Path, figure: str, claims: int) -> None:
    lines = list(figures(tmp_path)[figure]())
    assert sum(line.rstrip().endswith(("pass", "FAIL")) for line in lines) == claims
    assert [line for line in lines if "every run gave all" in line and line.endswith("pass")]
    assert (tmp_path / f"state-adapt_figure_{figure}.csv").exists()
