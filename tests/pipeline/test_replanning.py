"""When a plan is chosen again: better by a margin, for some batches, and never by turns."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.model.settings import Settings
from millstream.pipeline.measuring import Ratio, RunStatistics
from millstream.pipeline.replanning import Replanner
from millstream.plan.nodes import Plan
from millstream.plan.replan import differences

WINDOWS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
TRUE, WRONG = 3_000.0, 30_000.0
LONG = 1e6
"""Seconds of a batch: so plans are compared after every one."""


def script(rate: float) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, Ts TIMESTAMP) WITH (time = 'Ts', rate = {rate:g}, keys = 3000);\n"
        for name in "AB"
    )
    queries = "".join(
        f"CREATE QUERY q{number} AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW {round(1000 * window)} MILLISECONDS;\n"
        for number, window in enumerate(WINDOWS)
    )
    return streams + queries


def known(rate: float, batches: int = 10) -> RunStatistics:
    return RunStatistics(batches=batches, rates={name: Ratio(rate, 1.0) for name in "AB"})


def changes(replanner: Replanner, plan: Plan, rates: list[float]) -> list[int]:
    """After which batches the plan is changed; it is followed."""
    found, replanner_plan = [], replanner.at_start(plan, known(rates[0]))
    for batch, rate in enumerate(rates):
        choice = replanner.look(replanner_plan, known(rate), LONG)
        if choice is not None:
            assert list(differences(replanner_plan, choice.plan))
            replanner_plan = choice.plan
            found.append(batch)
    return found


def test_wrong_hints_are_left_after_enough_batches() -> None:
    plan = compile_script(script(WRONG))
    assert len(plan.chains[0].slices) > 1
    for wait in (1, 5, 9):
        slow = replace(Settings(), replan_batches=wait)
        (first,) = changes(Replanner(slow, None), plan, [TRUE] * 30)
        assert wait - 1 <= first <= wait, "as soon as it may be"


def test_right_hints_and_small_gains_change_nothing() -> None:
    assert changes(Replanner(Settings(), None), compile_script(script(TRUE)), [TRUE] * 30) == []
    dear = replace(Settings(), replan_margin=0.95)
    assert changes(Replanner(dear, None), compile_script(script(WRONG)), [TRUE] * 30) == []


def test_nothing_is_believed_before_it_is_warm_or_where_it_is_off() -> None:
    plan = compile_script(script(WRONG))
    eager = replace(Settings(), replan_batches=1)
    replanner = Replanner(eager, None)
    assert all(replanner.look(plan, known(TRUE, batches), LONG) is None for batches in (1, 2))
    for off in (replace(eager, replan="off"), replace(eager, costs="paper")):
        assert changes(Replanner(off, None), plan, [TRUE] * 30) == []


def test_batches_between_comparisons_count() -> None:
    """Comparing takes a hundredth of the time at the most, so short batches are not all followed by a comparison."""
    plan, replanner = compile_script(script(WRONG)), Replanner(replace(Settings(), replan_batches=50), None)
    looks = [replanner.look(plan, known(TRUE), 0.05) for _ in range(400)]
    (first,) = [number for number, choice in enumerate(looks) if choice is not None][:1]
    assert 49 <= first < 200


def test_the_effect_is_told_once() -> None:
    replanner = Replanner(replace(Settings(), replan_batches=3), None)
    assert replanner.effect(1.0) == ""
    replanner.changed(7, 2.0)
    told = [replanner.effect(1.0) for _ in range(6)]
    assert told == ["", "", "since the plan was changed after batch 7 a row takes 0.50 times as long", "", "", ""]


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.floats(0.7, 1.3), min_size=60, max_size=60),
    st.integers(1, 6),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([TRUE, WRONG]),
)
def test_plans_do_not_take_turns(noise: list[float], period: int, wait: int, hinted: float) -> None:
    """Measurements that vary around one rate, or swing between two in any rhythm: a plan that was left is not taken up
    again and again.
    """
    set_to, plan = replace(Settings(), replan_batches=wait), compile_script(script(hinted))
    assert len(changes(Replanner(set_to, None), plan, [TRUE * one for one in noise])) <= 3
    swinging = [(TRUE, WRONG)[batch // period % 2] * one for batch, one in enumerate(noise)]
    assert len(changes(Replanner(set_to, None), plan, swinging)) <= 12
