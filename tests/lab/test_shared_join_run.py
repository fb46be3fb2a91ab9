"""The shared-join experiment on the engine, small: the same rows under every policy, and a clock that moves."""

from __future__ import annotations

import pytest

from millstream.lab.shared_join_run import Setup, arrivals, measure

SMALL = Setup((1, 4, 10), tuples=60, rate=5, rows=20, burst=2)


@pytest.fixture(scope="module")
def incoming() -> int:
    return len(list(arrivals(SMALL)))


@pytest.mark.parametrize("access", ["index", "scan"])
def test_every_policy_delivers_the_same_rows(access: str, incoming: int) -> None:
    setup = Setup(SMALL.windows, SMALL.tuples, SMALL.rate, SMALL.burst, SMALL.rows, access=access)
    found = measure(setup, ("lwo", "swf", "greedy"), stretch=5.0)
    counts = {policy: [one.rows for one in outcome.windows.values()] for policy, outcome in found.items()}
    assert counts["lwo"] == counts["swf"] == counts["greedy"]
    assert 0 < counts["lwo"][0] < counts["lwo"][1] < counts["lwo"][2]
    for outcome in found.values():
        assert outcome.arrived == incoming
        assert outcome.busy > 0
        assert all(0 < one.mean <= one.greatest for one in outcome.windows.values())


def test_lwo_holds_nothing_and_swf_does() -> None:
    found = measure(SMALL, ("lwo", "swf"), stretch=20.0)
    assert found["lwo"].most_held == 0
    assert found["swf"].most_held > 0
