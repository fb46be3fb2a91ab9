"""The order a policy's wishes make: what has begun goes on, then the greatest wish, then who came first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.path import Path, Stage
from millstream.engine.policy import Policy, Runnable

PATH = Path([Stage(f"o{n}", 1) for n in range(4)])


class Wishes(Policy):
    """Wishes for whatever has most rows, and counts all but the first stage as begun."""

    name = "wishes"

    def priority(self, work: Runnable) -> float:
        return work.queue

    def begun(self, work: Runnable) -> bool:
        return work.at > 0


works = st.builds(
    Runnable,
    st.just(PATH),
    st.integers(0, 3),
    st.integers(1, 3).map(float),
    st.integers(0, 2).map(float),
    st.integers(0, 2),
)


@given(st.lists(works, max_size=10))
def test_what_has_begun_goes_on_and_the_greatest_wish_comes_next(some: list[Runnable]) -> None:
    begun = sorted((work for work in some if work.at), key=lambda work: (-work.at, work.arrived, work.number))
    others = sorted((work for work in some if not work.at), key=lambda work: (-work.queue, work.arrived, work.number))
    assert sorted(some, key=Wishes().key) == begun + others


@given(st.lists(works, max_size=10))
def test_without_a_wish_who_came_first_is_first(some: list[Runnable]) -> None:
    assert sorted(some, key=Policy().key) == sorted(some, key=lambda work: (work.arrived, work.number))


def test_work_waits_at_a_stage_of_its_path() -> None:
    assert Runnable(PATH, 2, 1.0, 0.0, 0).stage is PATH.stages[2]
