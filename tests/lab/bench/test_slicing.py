"""`millstream bench slicing`: what it runs, and when it calls an estimate wrong."""

from __future__ import annotations

from millstream.lab.bench.slicing import WORKLOADS, in_order, plans
from millstream.plan import Calibration


def test_ways_that_are_the_same_plan_run_once() -> None:
    dear_search = plans(WORKLOADS[1].script(), Calibration(search_step=1e6))
    assert {way: len(plan.chains[0].slices) for way, plan in dear_search.items()} == {
        "memory-optimal": 23,
        "CPU-optimal, one slice": 1,
    }
    dear_route = plans(WORKLOADS[1].script(), Calibration(route=1e6, route_cut=1e6))
    assert {way: len(plan.chains[0].slices) for way, plan in dear_route.items()} == {
        "CPU-optimal, memory-optimal": 23,
        "one slice": 1,
    }


def test_only_times_that_clearly_differ_must_be_in_the_order_of_estimates() -> None:
    times = {"a": 1.0, "b": 1.05, "c": 2.0}
    assert in_order(times, {"a": 9, "b": 8, "c": 10})
    assert not in_order(times, {"a": 9, "b": 8, "c": 8.5})
