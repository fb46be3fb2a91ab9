"""What waits: the order in which a policy takes work of all chains, and where a budget ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from millstream.compile import compile_script
from millstream.engine.backlog import Backlog, Budget
from millstream.engine.chain_run import ChainRun
from millstream.engine.engine import Engine
from millstream.engine.joiner import Joined
from millstream.engine.policies import FAIRNESS, make_policy
from millstream.engine.units import Unit
from millstream.lab.workloads.generators import SECOND
from millstream.model.settings import POLICY_NAMES

WIDE, NARROW = (1, 4, 9), (2, 20)
"""Windows in seconds of the chain of A and B, and of the chain of B and C."""


def behind() -> Engine:
    """Thirty small batches, nothing of them joined yet."""
    streams = [f"CREATE STREAM {name} (k BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABC"]
    queries = [
        f"CREATE QUERY {left}{right}{window} AS SELECT x.Ts AS a, y.Ts AS b FROM {left} x, {right} y "
        f"WHERE x.k = y.k WINDOW {window} SECONDS;"
        for left, right, windows in (("A", "B", WIDE), ("B", "C", NARROW))
        for window in windows
    ]
    engine = Engine(compile_script("\n".join([*streams, *queries]), settings={"slicing": "memory"}), lambda _, __: None)
    rng = np.random.default_rng(1)
    for second in range(30):
        times = np.sort(rng.integers(second * SECOND, (second + 1) * SECOND, 5))
        table = pa.table({"k": rng.integers(0, 3, 5), "Ts": pa.array(times).view(pa.timestamp("us", "UTC"))})
        engine.feed({"ABC"[second % 3]: table}, Budget(units=0))
    return engine


def taken(policy: str, fairness: str, count: int) -> list[str]:
    """Tasks in the order of the policy, so many at a time."""
    chains = behind().chains()
    backlog = Backlog(make_policy(policy, fairness, memory=2e3))
    assert not list(backlog.run(chains, Budget(units=0)))
    found: list[str] = []
    while some := backlog.take_tasks(count):
        assert len(some) == count or not any(len(chain.ledger) for chain in chains)
        found += [repr((chains.index(chain), [_told(unit) for unit in task.units()])) for chain, task, _ in some]
    return found


def _told(unit: Unit) -> tuple[int, int, str]:
    return unit.probe.number, unit.state.number, str(unit.interval)


@pytest.mark.parametrize("fairness", FAIRNESS)
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_handful_is_what_comes_one_by_one(policy: str, fairness: str) -> None:
    one_by_one = taken(policy, fairness, 1)
    assert taken(policy, fairness, 16) == one_by_one
    assert sorted(one_by_one) == sorted(taken("lwo", "none", 1)), "the same work, whoever chooses"


def test_a_policy_chooses_among_the_slices_of_all_chains() -> None:
    chains = behind().chains()
    backlog = Backlog(make_policy("greedy"))
    assert not list(backlog.run(chains, Budget(units=0)))
    found = [(chains.index(chain), task.interval) for chain, task, _ in backlog.take_tasks(10_000)]
    widths = [max(i.hi, 1 - i.lo) - max(i.lo, 1 - i.hi, 0) for _, i in found]
    first = {chain for chain, _ in found[: widths.index(max(widths))]}
    assert first == {0, 1}, "neither chain is done before the other has begun"
    begun = [width for width in widths if width <= 2 * SECOND]
    assert widths[: len(begun)] == sorted(begun), "the smallest windows of both chains come first"


def test_a_budget_is_for_all_chains_together() -> None:
    engine = behind()
    waiting = engine.deferred
    assert all(len(chain.ledger) > 7 for chain in engine.chains())
    engine.work(Budget(units=7))
    assert engine.deferred == waiting - 7
    engine.work(Budget(seconds=0))
    before = {chain: len(list(chain.ledger.tasks())) for chain in engine.chains()}
    engine.work(Budget(seconds=0))
    assert sum(before[chain] - len(list(chain.ledger.tasks())) for chain in engine.chains()) == 1
    engine.work(Budget(seconds=60))
    assert engine.deferred == 0


def test_no_more_is_taken_than_there_is_time_for() -> None:
    chains = behind().chains()
    backlog = Backlog(make_policy("lwo"))
    assert not list(backlog.run(chains, Budget(units=0)))
    costs = [cost for _, _, cost in backlog.take_tasks(5)]
    assert all(cost > 0 for cost in costs)
    assert len(backlog.take_tasks(16, limit=0.0)) == 1, "one always comes"
    *some, last = (cost for _, _, cost in backlog.take_tasks(16, limit=2 * max(costs)))
    assert sum(some) < 2 * max(costs) <= sum(some) + last


class Clock:
    """Stands where the module of that name does; moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def perf_counter_ns(self) -> int:
        return round(self.now * 1e9)


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_run_ends_with_its_budget_though_small_windows_came_first(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, chains = Clock(), behind().chains()
    monkeypatch.setattr("millstream.engine.backlog.time", clock)
    done: list[float] = []

    def execute(_chain: ChainRun, units: list[Unit]) -> Iterator[Joined]:
        interval = units[0].interval
        done.append((interval.hi - interval.lo) / SECOND)
        clock.now += done[-1]
        return iter(())

    monkeypatch.setattr(ChainRun, "execute", execute)

    backlog = Backlog(make_policy(policy))
    for _ in range(10):
        began = clock.now
        assert not list(backlog.run(chains, Budget(seconds=20.0)))
        # A slice on both sides of zero is expected to take as long as one side of it.
        assert 20 <= clock.now - began <= 20 + 2 * max(done)


def one_more(engine: Engine) -> None:
    """A batch of both chains."""
    times = pa.array([30 * SECOND, 30 * SECOND + 1]).view(pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_pydict({"k": pa.array([0, 1]), "Ts": times})
    for pool in engine.pools():
        pool.arrive([(rows, frozenset())], 31)
        pool.keep_fresh()
    for chain in engine.chains():
        for at in range(2):
            chain.defer(at)


def test_what_comes_later_is_taken_as_if_it_had_been_there() -> None:
    found = []
    for looks_before in (True, False):
        engine = behind()
        chains = engine.chains()
        backlog = Backlog(make_policy("lwo"))
        if looks_before:
            assert not list(backlog.run(chains, Budget(units=0)))
        one_more(engine)
        assert not list(backlog.run(chains, Budget(units=0)))
        tasks = backlog.take_tasks(10_000)
        assert not any(len(chain.ledger) for chain in chains)
        found.append([(chains.index(chain), _told(unit)) for chain, task, _ in tasks for unit in task.units()])
    assert found[0] == found[1]
    assert tasks[-1][1].probe.batch == 31


@pytest.mark.parametrize("policy", ["greedy", "lwo", "swf", "fifo", "path_capacity"])
def test_units_come_in_the_order_of_their_tasks(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chains, done = behind().chains(), list[str]()

    def execute(chain: ChainRun, units: list[Unit]) -> Iterator[Joined]:
        done.extend(repr((chains.index(chain), _told(unit))) for unit in units)
        return iter(())

    monkeypatch.setattr(ChainRun, "execute", execute)
    backlog = Backlog(make_policy(policy))
    while any(len(chain.ledger) for chain in chains):
        assert not list(backlog.run(chains, Budget(units=3)))
    others = behind().chains()
    backlog = Backlog(make_policy(policy))
    assert not list(backlog.run(others, Budget(units=0)))
    tasks = backlog.take_tasks(10_000)
    assert done == [repr((others.index(chain), _told(unit))) for chain, task, _ in tasks for unit in task.units()]


def test_the_load_is_that_of_all_ledgers() -> None:
    chains = behind().chains()
    backlog = Backlog(make_policy("lwo"))
    assert (backlog.now, backlog.memory()) == (0, 0)
    assert not list(backlog.run(chains, Budget(units=0)))
    assert backlog.memory() == sum(chain.ledger.memory() for chain in chains) > 0
    assert backlog.now == 30
    assert backlog.choosing > 0
