"""Walks: every stream is placed once, all rows of a result meet in one slot, and the cheapest order is taken."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.model.expr import sources, text
from millstream.plan import Plan
from millstream.plan.key_classes import key_classes
from millstream.plan.nodes import Chain
from millstream.plan.statistics import in_pool

NAMES = "ABCDEFGH"


def plan_of(
    where: str, streams: str = "ABC", window: str = "WINDOW 5 SECONDS", hints: dict[str, str] | None = None
) -> Plan:
    script = ""
    for name in NAMES:
        options = f"time = 'Ts'{(hints or {}).get(name, '')}"
        script += f"CREATE STREAM {name} (k INT, j INT, s STRING, v INT, Ts TIMESTAMP) WITH ({options});"
    script += f"CREATE QUERY q AS SELECT {streams[0]}.k FROM {', '.join(streams)} WHERE {where} {window};"
    return compile_script(script)


def orders(plan: Plan) -> list[list[int]]:
    (chain,) = plan.chains
    return [[step.position for step in walk] for walk in chain.walks]


columns = st.sampled_from(["k", "j", "s"])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, str]:
    """Streams and a predicate that connects them, mostly by equalities."""
    streams = NAMES[: draw(st.integers(2, 5))]
    where = []
    for number, name in enumerate(streams[1:], start=1):
        other, column = streams[draw(st.integers(0, number - 1))], draw(columns)
        where.append(f"{other}.{column} = {name}.{column}" if draw(st.integers(0, 5)) else f"{other}.v < {name}.v")
    for one, other in combinations(streams, 2):
        if draw(st.integers(0, 3)) == 0:
            column = draw(columns)
            where.append(f"{one}.{column} = {other}.{column}")
    return streams, " AND ".join(where)


def check(plan: Plan) -> None:
    (chain,) = plan.chains
    everyone = set(range(len(chain.streams)))
    for at, walk in enumerate(chain.walks):
        placed = {at}
        for step in walk:
            assert step.position not in placed, "once"
            pool = plan.pool(step.pool)
            assert pool.stream == chain.streams[step.position]
            if step.same is None:
                assert len(step.keys) == len(pool.by)
                assert all(sources(key) <= placed for key in step.keys), "of what is known by then"
            else:
                assert not step.keys
                assert pool.is_routed
                assert plan.pool(chain.pools[step.same]).spread == pool.spread or pool.spread.key, "routed alike"
                assert step.same in placed
            placed |= {step.position}
            for key in step.checked:
                assert sources(key.left) | sources(key.right) <= placed
        assert placed == everyone
        proven = [key for key in chain.keys if not any(key in step.checked for step in walk)]
        assert all(key.type.is_integer for key in proven), "only one integer's code is exact"
    for position, name in enumerate(chain.pools):
        assert name in {step.pool for walk in chain.walks for step in walk if step.position == position}, (
            "no extra pool"
        )


def check_spread(plan: Plan, chain: Chain) -> None:
    """A result's rows are all in the slot that its spreading key says; those of other streams are in every slot."""
    pools = [(position, plan.pool(name)) for position, name in chain.read_at()]
    classes = key_classes(chain.keys)
    if not classes:
        assert all(pool.spread.chain == chain.signature and not pool.spread.everywhere for _, pool in pools)
        return
    keyed = [(position, pool.spread.key) for position, pool in pools if not pool.spread.everywhere]
    assert keyed
    for position, key in keyed:
        assert key
        spreading = [
            next(
                some
                for some in classes
                if (expr := some.at(position)) is not None and in_pool(expr) == part.expr and some.type == part.type
            )
            for part in key
        ]
        for other, its in keyed:
            mirrored = [some.at(other) for some in spreading]
            assert [in_pool(expr) for expr in mirrored if expr is not None] == [part.expr for part in its], (
                "by the same"
            )


@settings(max_examples=120)
@given(graphs())
def test_every_walk_places_every_stream_and_all_rows_of_a_result_meet(graph: tuple[str, str]) -> None:
    streams, where = graph
    plan = plan_of(where, streams)
    check(plan)
    check_spread(plan, plan.chains[0])


def test_one_key_for_all_is_found_by_the_code_that_routes() -> None:
    plan = plan_of("A.k = B.k AND B.k = C.k")
    (chain,) = plan.chains
    assert len(plan.pools) == 3
    for walk in chain.walks:
        assert all(step.same is not None and not step.checked for step in walk), "nothing is left to compare"


def test_texts_may_collide_and_are_compared() -> None:
    (chain,) = plan_of("A.s = B.s AND B.s = C.s").chains
    for at, walk in enumerate(chain.walks):
        assert {key for step in walk for key in step.checked} == set(chain.keys), at


def test_what_is_equal_through_another_stream_is_compared_once() -> None:
    """A.k = C.k follows from the codes; A.s = C.s does not, whichever way it is written."""
    (chain,) = plan_of("A.k = B.k AND B.k = C.k AND A.k = C.k").chains
    assert not any(step.checked for walk in chain.walks for step in walk)


def test_a_stream_without_the_spreading_key_goes_everywhere_and_is_found_by_its_own() -> None:
    fast = ", rate = 1000000"
    plan = plan_of("A.k = B.k AND B.j = C.j", hints={"A": fast, "B": fast})
    by_title = {pool.title: pool for pool in plan.pools}
    assert by_title.keys() == {"A by k", "B by k", "B by j", "C by j"}
    assert {title for title, pool in by_title.items() if pool.spread.everywhere} == {"C by j"}
    assert {title for title, pool in by_title.items() if pool.is_routed} == {"A by k", "B by k"}
    (chain,) = plan.chains
    assert plan.pool(chain.pools[1]).title == "B by k", "arriving rows are read from the pool they are routed by"


@pytest.mark.parametrize(("rare", "spread"), [("A", "j"), ("C", "k")])
def test_the_key_of_most_rows_spreads_them(rare: str, spread: str) -> None:
    hints = dict.fromkeys("ABC", ", rate = 1000") | {rare: ", rate = 1"}
    plan = plan_of("A.k = B.k AND B.j = C.j", hints=hints)
    keys = {text(part.expr, lambda column: column.name) for pool in plan.pools for part in pool.spread.key}
    assert keys == {spread}
    assert {pool.stream.name for pool in plan.pools if pool.spread.everywhere} == {rare}


def test_a_key_in_two_parts_may_come_from_two_streams() -> None:
    (chain,) = plan_of("A.s = B.s AND A.k = C.k AND B.j = C.j").chains
    steps = [step for walk in chain.walks for step in walk if step.position == 2 and len(step.keys) == 2]
    assert steps
    for step in steps:
        assert [sources(key) for key in step.keys] == [{0}, {1}]


@pytest.mark.parametrize(("small", "first"), [("B", 1), ("C", 2)])
def test_the_stream_that_fewest_tuples_match_is_looked_up_first(small: str, first: int) -> None:
    hints = dict.fromkeys("ABC", ", rate = 1000, keys = 10") | {small: ", rate = 1, keys = 10"}
    assert orders(plan_of("A.k = B.k AND B.k = C.k", hints=hints))[0][0] == first


@pytest.mark.parametrize(("narrow", "first"), [("B", 1), ("C", 2)])
def test_a_narrow_bound_is_looked_up_before_a_wide_one(narrow: str, first: int) -> None:
    wide = "C" if narrow == "B" else "B"
    window = (
        f"AND {narrow}.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '1' SECOND"
        f" AND {wide}.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '900' SECOND"
    )
    assert orders(plan_of("A.k = B.k AND A.k = C.k", window=window))[0][0] == first


def test_a_stream_with_a_key_comes_before_one_without() -> None:
    assert orders(plan_of("A.k = C.k AND B.v < C.v"))[0] == [2, 1]


def test_so_many_streams_that_not_all_orders_are_compared_are_walked_too() -> None:
    path = " AND ".join(f"{one}.k = {other}.k" for one, other in pairwise(NAMES))
    plan = plan_of(path, NAMES)
    check(plan)
    assert len(plan.pools) == len(NAMES)
    star = " AND ".join(f"A.{'kj'[number % 2]} = {name}.k" for number, name in enumerate(NAMES[1:]))
    plan = plan_of(star, NAMES)
    check(plan)
    check_spread(plan, plan.chains[0])


@settings(max_examples=40)
@given(graph=graphs(), seconds=st.lists(st.integers(1, 4000), min_size=5, max_size=5))
def test_pools_follow_from_the_predicate_whatever_the_windows(graph: tuple[str, str], seconds: list[int]) -> None:
    """So that a query that comes while others run finds its state."""
    streams, where = graph
    parts = [f"{name} {some} SECONDS" for name, some in zip(streams, seconds, strict=False)]
    one, other = plan_of(where, streams), plan_of(where, streams, f"WINDOW {', '.join(parts)}")
    assert one.chains[0].pools == other.chains[0].pools
    assert {pool.name for pool in one.pools} == {pool.name for pool in other.pools}
