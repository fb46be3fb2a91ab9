"""The ledger: tasks come by the handful as they would come one by one, and its counts follow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millstream.compile import compile_script
from millstream.engine.chain_run import Budget
from millstream.engine.engine import Engine
from millstream.engine.policies import FAIRNESS, make_policy
from millstream.engine.slice_paths import SlicePaths
from millstream.engine.statistics import ChainStatistics
from millstream.engine.units import Ledger, Task, Unit, fused
from millstream.lab.generators import SECOND
from millstream.model.settings import POLICY_NAMES


@pytest.fixture(scope="module")
def waiting() -> list[Unit]:
    """Units of thirty small batches, three windows on each side of zero."""
    streams = [f"CREATE STREAM {name} (k BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB"]
    select = "SELECT A.Ts AS a, B.Ts AS b FROM A, B WHERE A.k = B.k"
    queries = [f"CREATE QUERY w{window} AS {select} WINDOW {window} SECONDS;" for window in (1, 4, 9)]
    plan = compile_script("\n".join([*streams, *queries]), settings={"slicing": "memory"})
    engine = Engine(plan, lambda _, __: None)
    rng = np.random.default_rng(1)
    for second in range(30):
        times = np.sort(rng.integers(second * SECOND, (second + 1) * SECOND, 5))
        table = pa.table({"k": rng.integers(0, 3, 5), "Ts": pa.array(times).view(pa.timestamp("us", "UTC"))})
        engine.feed({"AB"[second % 2]: table}, Budget(units=0))
    (chain,) = engine.chains()
    return list(chain.ledger.units())


def taken(units: list[Unit], policy: str, fairness: str, count: int) -> list[Task]:
    ledger, paths, chosen = Ledger(), SlicePaths(ChainStatistics()), make_policy(policy, fairness, memory=2e3)
    ledger.add(units)
    found: list[Task] = []
    while some := ledger.take_tasks(chosen, paths, count):
        assert len(some) == count or not len(ledger)
        found += some
    return found


@pytest.mark.parametrize("fairness", FAIRNESS)
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_handful_is_what_comes_one_by_one(waiting: list[Unit], policy: str, fairness: str) -> None:
    one_by_one = taken(waiting, policy, fairness, 1)
    assert taken(waiting, policy, fairness, 16) == one_by_one
    assert sorted(map(repr, (unit for task in one_by_one for unit in task.units()))) == sorted(map(repr, waiting))


def test_what_is_counted_goes_down_to_nothing(waiting: list[Unit]) -> None:
    ledger, paths = Ledger(), SlicePaths(ChainStatistics())
    ledger.add(waiting)
    assert len(ledger) == len(waiting)
    assert ledger.waiting_rows() == sum({unit.probe.number: len(unit.probe) for unit in waiting}.values())
    named = {segment.number for unit in waiting for segment in (unit.probe, unit.state)}
    assert ledger.segments() == named
    policy = make_policy("greedy")
    while tasks := ledger.take_tasks(policy, paths, 7):
        left = list(ledger.units())
        assert len(ledger) == len(left)
        assert ledger.segments() == {segment.number for unit in left for segment in (unit.probe, unit.state)}
        open_still = {unit.interval for unit in left}
        assert {interval for interval, _, _ in ledger.earliest()} == open_still
        assert tasks
    assert (len(ledger), ledger.memory(), ledger.waiting_rows()) == (0, 0, 0)


def test_units_added_to_a_segment_on_its_way_come_in_their_place(waiting: list[Unit]) -> None:
    probe = waiting[-1].probe
    own = [unit for unit in waiting if unit.probe is probe]
    near, *others = sorted({unit.interval for unit in own}, key=lambda interval: max(interval.hi, -interval.lo))
    ledger, paths, policy = Ledger(), SlicePaths(ChainStatistics()), make_policy("lwo")
    ledger.add(unit for unit in own if unit.interval != near)
    (first,) = ledger.take_tasks(policy, paths, 1)
    assert first.interval == others[0]
    ledger.add(unit for unit in own if unit.interval == near)
    assert [task.interval for task in ledger.take_tasks(policy, paths, 9)] == [near, *others[1:]]


def test_fused_units_are_the_same_work(waiting: list[Unit]) -> None:
    whole = list(fused(waiting))
    assert len(whole) < len(waiting)
    assert len({(unit.probe.number, unit.state.number) for unit in whole}) == len(whole)
    for unit in waiting:
        assert any((w.probe, w.state) == (unit.probe, unit.state) and w.interval.covers(unit.interval) for w in whole)
