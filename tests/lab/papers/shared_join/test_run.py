"""The shared-join experiment on the engine, small: the same rows under every policy, and a clock that moves."""

from __future__ import annotations

import pytest

from millstream.lab.papers.shared_join.run import Costs, Setup, arrivals, measure

SMALL = Setup((1, 4, 10), tuples=60, rate=5, rows=20, burst=2)


@pytest.fixture(scope="module")
def incoming() -> int:
    return len(list(arrivals(SMALL)))


@pytest.mark.parametrize("access", ["index", "scan"])
def test_every_policy_delivers_the_same_rows(access: str, incoming: int) -> None:
    setup = Setup(SMALL.windows, SMALL.tuples, SMALL.rate, SMALL.burst, SMALL.rows, access=access)
    found = measure(setup, ("lwo", "swf", "greedy"), (5.0, None))
    counts = {policy: [one.rows for one in outcome.windows.values()] for policy, outcome in found.items()}
    assert counts["lwo"] == counts["swf"] == counts["greedy"]
    assert 0 < counts["lwo"][0] < counts["lwo"][1] < counts["lwo"][2]
    for outcome in found.values():
        assert outcome.arrived == incoming
        assert outcome.busy > 0
        assert all(0 < one.mean <= one.greatest for one in outcome.windows.values())


def test_lwo_holds_nothing_and_swf_does() -> None:
    found = measure(SMALL, ("lwo", "swf"), (1.0, Costs(0.05, 0.05, 1e-6)))
    assert found["lwo"].most_held == 0
    assert found["swf"].most_held > 0


def test_a_counted_clock_gives_the_same_times_again() -> None:
    """Whatever else the machine does meanwhile."""
    known = (1.0, Costs(0.01, 0.01, 1e-6))
    first, second = (measure(SMALL, ("greedy",), known)["greedy"] for _ in range(2))
    assert first.windows == second.windows
    assert first.lasted == second.lasted
