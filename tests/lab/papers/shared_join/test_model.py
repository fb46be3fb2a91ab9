"""shared-join, equations 1 and 2 and Figures 3 and 5: the engine's policies, in virtual time, do just what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.lab.papers.shared_join import model
from millstream.lab.workloads.windows import UNIFORM

PAPER = (UNIFORM, model.TOGETHER, model.RATE, model.PER_PAIR)


EQUATIONS = {"lwo": model.largest_window_only, "swf": model.smallest_window_first}


@pytest.mark.parametrize("policy", EQUATIONS)
def test_the_figures_are_exact(policy: str) -> None:
    assert model.simulated(policy, *PAPER) == pytest.approx(EQUATIONS[policy](*PAPER), rel=1e-12)


@given(
    windows=st.lists(st.integers(1, 50), min_size=1, max_size=5, unique=True).map(sorted),
    m=st.integers(1, 8),
    policy=st.sampled_from(["lwo", "swf"]),
)
def test_the_equations_hold_for_any_windows(windows: list[int], m: int, policy: str) -> None:
    equation = EQUATIONS[policy]
    assert model.simulated(policy, windows, m, 10, 0.5) == pytest.approx(equation(windows, m, 10, 0.5))


def test_a_query_alone_is_lwo_with_its_own_window() -> None:
    for window, alone in zip(UNIFORM, model.isolated(*PAPER), strict=True):
        assert model.largest_window_only([window], *PAPER[1:]) == pytest.approx([alone])


def test_figure_3_the_smallest_window_pays_for_the_largest() -> None:
    """LWO takes about 14.7 ms whatever the window, where the smallest alone would take 0.025 ms."""
    shared, alone = model.largest_window_only(*PAPER), model.isolated(*PAPER)
    assert shared[0] == pytest.approx(14.7e-3, rel=0.01)
    assert alone[0] == pytest.approx(0.025e-3, rel=0.01)
    assert shared[-1] == pytest.approx(alone[-1])


def test_figure_5_swf_serves_small_windows_as_if_alone_and_the_largest_twice_as_late() -> None:
    shared, alone = model.smallest_window_first(*PAPER), model.isolated(*PAPER)
    assert shared[0] == pytest.approx(alone[0], rel=0.03)
    assert shared[-1] / alone[-1] == pytest.approx(1.84, rel=0.01)
