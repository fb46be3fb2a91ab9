"""What has been spilled and what is owed, against a dictionary from each group to the batches it was spilled after."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.groups import Groups, group_set, members
from millstream.engine.spilled import Spilled

COUNT = 6
groups_of = st.sets(st.integers(0, COUNT - 1))


@dataclass
class Plain:
    """The same, one group at a time."""

    marks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    owing: set[int] = field(default_factory=set)

    def add(self, groups: set[int], batch: int) -> None:
        for group in groups:
            known = self.marks.get(group, ())
            self.marks[group] = known if known and known[-1] >= batch else (*known, batch)

    def arrived(self, groups: set[int]) -> None:
        self.owing |= groups & self.marks.keys()

    def settle(self, groups: set[int], batch: int | None) -> None:
        self.owing -= groups
        for group in groups:
            self.marks.pop(group, None)
            if batch is not None:
                self.marks[group] = (batch,)

    def give_up(self, groups: set[int]) -> Plain:
        given_up = Plain({group: self.marks[group] for group in groups & self.marks.keys()}, self.owing & groups)
        self.marks = {group: marks for group, marks in self.marks.items() if group not in groups}
        self.owing -= groups
        return given_up


def plain(spilled: Spilled) -> Plain:
    found = {group: marks for marks, groups in spilled.by_marks.items() for group in members(groups)}
    assert sum(groups.bit_count() for groups in spilled.by_marks.values()) == len(found), "a group has its marks once"
    assert all(spilled.by_marks.values()), "no marks without groups"
    return Plain(found, set(members(spilled.owing)))


def check(spilled: Spilled, wanted: Plain, some: set[int]) -> None:
    assert plain(spilled) == wanted
    assert members(spilled.groups) == sorted(wanted.marks)
    assert spilled.marks == {batch for marks in wanted.marks.values() for batch in marks}
    assert spilled.first == min((wanted.marks[group][0] for group in wanted.owing), default=None)
    assert all(tuple(sorted(set(marks))) == marks for marks in spilled.by_marks)
    alike = {group: marks for marks, groups in spilled.alike(group_set(some)) for group in members(groups)}
    assert alike == {group: marks for group, marks in wanted.marks.items() if group in some}


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "arrived", "settle in memory", "settle on disk", "give up"]), groups_of),
        st.just(("next batch", set[int]())),
    ),
    max_size=14,
)


@given(steps, groups_of)
def test_groups_have_the_marks_that_each_would_have_alone(steps: list[tuple[str, set[int]]], some: set[int]) -> None:
    spilled, wanted, batch = Spilled(), Plain(), 1
    for what, groups in steps:
        made = group_set(groups)
        if what == "next batch":
            batch += 1
        elif what == "add":
            spilled.add(made, batch)
            wanted.add(groups, batch)
        elif what == "arrived":
            spilled.arrived(made)
            wanted.arrived(groups)
        elif what == "give up":
            assert plain(spilled.give_up(made)) == wanted.give_up(groups)
        else:
            there = group_set(groups & wanted.marks.keys()) if what == "settle on disk" else made
            spilled.settle(there, batch if what == "settle on disk" else None)
            wanted.settle(set(members(there)), batch if what == "settle on disk" else None)
        check(spilled, wanted, some)


@given(st.lists(groups_of, max_size=4), groups_of)
def test_what_is_taken_is_gone_and_what_was_not_spilled_comes_last(spills: list[set[int]], some: set[int]) -> None:
    spilled, wanted = Spilled(), Plain()
    for batch, groups in enumerate(spills, start=1):
        spilled.add(group_set(groups), batch)
        wanted.add(groups, batch)
    taken = spilled.take(group_set(some))
    found: dict[int, tuple[int, ...]] = {group: marks for marks, groups in taken for group in members(groups)}
    assert found == {group: wanted.marks.get(group, ()) for group in some}
    assert all(marks for marks, _ in taken[:-1])
    assert members(spilled.groups) == sorted(wanted.marks.keys() - some)


def test_the_first_spill_counts_only_of_groups_that_owe() -> None:
    spilled = Spilled()
    spilled.add(0b01, 2)
    spilled.add(0b10, 5)
    assert spilled.first is None, "nothing has come since"
    spilled.arrived(0b110)
    assert (spilled.owing, spilled.first) == (0b10, 5)
    spilled.arrived(0b01)
    assert spilled.first == 2
    spilled.settle(0b01, None)
    assert (spilled.groups, spilled.first) == (0b10, 5)


def test_a_group_spilled_twice_after_one_batch_has_one_mark() -> None:
    spilled = Spilled()
    for batch in (3, 3, 4):
        spilled.add(1, batch)
    empty: Groups = 0
    spilled.add(empty, 9)
    assert spilled.by_marks == {(3, 4): 1}
