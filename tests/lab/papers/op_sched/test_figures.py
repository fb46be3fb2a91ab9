"""op-sched, Figures 2 to 4 in small: one workload of 116 real operators, at costs given by kind."""

from __future__ import annotations

import pytest

from millstream.lab.papers.op_sched.figures import COMPARED, LOADS, Series, compare
from millstream.lab.papers.op_sched.operators.relational import Join, ProjectText, Select, SelectText
from millstream.lab.papers.op_sched.workload import Streams

SECONDS, RATE, SEED = 8.0, 2_000.0, 3
COSTS = {SelectText: 3.5e-7, ProjectText: 4.9e-7, Join: 6.0e-7, Select: 0.9e-7}


@pytest.fixture(scope="module")
def found() -> dict[str, Series]:
    arrivals = list(Streams(tuple(load * RATE for load in LOADS), SECONDS, seed=SEED).chunks())
    return compare(SEED, arrivals, SECONDS, COSTS)[0]


def test_path_capacity_has_the_least_latency_and_chain_the_most(found: dict[str, Series]) -> None:
    latencies = [found[policy].mean_latency for policy in COMPARED]
    assert latencies == sorted(latencies)
    assert latencies[2] > 1.2 * latencies[0]


def test_chains_output_is_the_most_bursty(found: dict[str, Series]) -> None:
    bursts = [found[policy].burstiness for policy in COMPARED]
    assert bursts == sorted(bursts)
    assert bursts[2] > 1.2 * bursts[1]


def test_chain_needs_the_least_memory_and_path_capacity_the_most(found: dict[str, Series]) -> None:
    means = [found[policy].mean_memory for policy in COMPARED]
    assert means == sorted(means, reverse=True)
    assert means[0] > 1.2 * means[1]


def test_every_policy_gives_all_rows(found: dict[str, Series]) -> None:
    assert len({sum(one.rows.values()) for one in found.values()}) == 1
