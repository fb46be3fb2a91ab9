"""Reaches from batch to batch, on pools that fill as rates say: they fit, hold still, follow the load and let go."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.plan.meter import ALL, BatchFacts, Demand, Meter, PoolHeld
from millstream.plan.shrinking import Shrinking

ROW = 100.0


@dataclass
class World:
    """Two pools of a query each way, which hold what their reaches say; a batch is ten seconds."""

    rates: dict[str, float]
    memory: float
    spans: tuple[tuple[float, float], ...] = ((0, 600), (0, 600))
    noise: float = 0.0
    meter: Meter = field(default_factory=Meter)
    shrinking: Shrinking = field(default_factory=Shrinking)
    held: dict[str, float] = field(default_factory=lambda: {"A": 0.0, "B": 0.0})
    news: int = 0
    most: float = 0.0

    def batches(self, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(count):
            for place, name in enumerate(self.held):
                reach = min(self.shrinking.reaches.get(name, 1e9), self.spans[place][1])
                self.held[name] = min(self.held[name] + 10, reach + 10)
            self.step(rng)

    def step(self, rng: np.random.Generator) -> None:
        pools = {}
        for place, name in enumerate(self.held):
            size = self.rates[name] * ROW * (1 + self.noise * rng.uniform(-1, 1))
            parts = ((self.spans[place][1], size),)
            pools[name] = PoolHeld(nbytes=size * self.held[name], seconds=self.held[name], behind=10.0, parts=parts)
        total = sum(pool.nbytes for pool in pools.values())
        self.most = max(self.most, total)
        meets = sum(
            max(min(self.held[name], self.spans[place][1]) - self.spans[place][0], 0)
            for place, name in enumerate(self.held)
        )
        rows = {name: int(10 * rate) for name, rate in self.rates.items()}
        facts = BatchFacts(
            seconds=1.0,
            interval=10.0,
            rows=rows,
            kept=rows,
            given={"q": int(10 * self.rates["A"] * self.rates["B"] * meets * 0.01)},
            pairs=1.0,
            for_pairs=0.1,
            event_seconds=10.0,
            pools=pools,
            memory=self.memory,
        )
        demands = [Demand(name="q", streams=("A", "B"), spans=self.spans, pools=("A", "B"))]
        self.meter.saw(facts, demands, ALL)
        self.news += self.shrinking.saw(facts, demands, self.meter, ALL)


def test_nothing_is_cut_while_memory_is_enough() -> None:
    world = World({"A": 10, "B": 50}, memory=60 * 610 * ROW + 1)
    world.batches(100)
    assert not world.shrinking.reaches
    assert world.news == 0


def test_memory_goes_to_the_slower_stream() -> None:
    """Equation 12: the window of A fits whole, and B gets what is left."""
    world = World({"A": 10, "B": 50}, memory=(10 * 610 + 50 * 110) * ROW)
    world.batches(100)
    reaches = world.shrinking.reaches
    assert reaches["A"] == 600
    assert 80 < reaches["B"] < 120
    assert world.news < 6
    assert world.most < 1.2 * world.memory


def test_a_window_that_begins_late_is_kept_whole_or_not_at_all() -> None:
    """Rows of A younger than 500 seconds give nothing: they are kept for the sake of older ones, or for nothing."""
    world = World({"A": 10, "B": 12}, memory=10 * 640 * ROW, spans=((500, 600), (0, 100)))
    world.batches(150)
    reaches = world.shrinking.reaches
    gives = max(min(reaches["A"], 600) - 500, 0) + min(reaches["B"], 100)
    assert gives > 90


def test_it_lets_go_when_the_load_falls() -> None:
    world = World({"A": 10, "B": 50}, memory=100_000)
    world.batches(80)
    assert world.shrinking.reaches
    world.rates = {"A": 0.5, "B": 0.5}
    world.batches(80)
    assert not world.shrinking.reaches
    assert world.held == {"A": 610, "B": 610}


@settings(max_examples=60)
@given(st.floats(1, 100), st.floats(1, 100), st.floats(0.08, 0.9), st.integers(0, 99))
def test_it_fits_and_does_not_flap(a: float, b: float, share: float, seed: int) -> None:
    """Whatever the rates: with noise of a tenth in what rows take, reaches change now and then only."""
    world = World({"A": a, "B": b}, memory=share * 610 * (a + b) * ROW, noise=0.1)
    world.batches(60, seed)
    world.news, world.most = 0, 0.0
    world.batches(100, seed)
    assert world.news <= 15
    assert world.most < 1.35 * world.memory
    assert world.shrinking.reaches
