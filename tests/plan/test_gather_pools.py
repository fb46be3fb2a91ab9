"""Pools: one for a stream and a key, whoever reads it, with the lanes that all its readers need."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.plan import Plan
from millstream.plan.check_plan import check_plan
from millstream.plan.nodes import Pool
from millstream.plan.statistics import in_pool

SECOND = 1_000_000
STREAMS = "".join(f"CREATE STREAM {name} (k INT, j INT, v INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABCD")


def plan_of(*selects: str) -> Plan:
    return compile_script(STREAMS + "".join(f"CREATE QUERY q{n} AS {select};" for n, select in enumerate(selects)))


def select(streams: str, where: str, rest: str = "WINDOW 5 SECONDS") -> str:
    return f"SELECT {streams[0]}.k FROM {', '.join(streams)} WHERE {where} {rest}"


def titles(plan: Plan) -> list[str]:
    return [pool.title for pool in plan.pools]


def lanes(pool: Pool) -> list[tuple[float, int]]:
    return [(lane.reach / SECOND, len(lane.condition)) for lane in pool.lanes]


def test_pairs_and_triples_by_one_key_keep_every_stream_once() -> None:
    pairs = [select(f"{a}{b}", f"{a}.k = {b}.k") for a, b in ("AB", "AC", "AD", "BC", "CD")]
    triples = [select("ABC", "A.k = B.k AND B.k = C.k"), select("BCD", "B.k = C.k AND C.k = D.k")]
    plan = plan_of(*pairs, *triples, select("ABCD", "A.k = B.k AND B.k = C.k AND C.k = D.k"))
    assert titles(plan) == ["A by k", "B by k", "C by k", "D by k"]
    assert len(plan.readers(plan.pools[0].name)) == 5
    assert all(pool.is_routed for pool in plan.pools)


def test_another_key_is_another_pool() -> None:
    plan = plan_of(select("AB", "A.k = B.k"), select("AB", "A.j = B.j"), select("AC", "A.k = C.j"))
    assert titles(plan) == ["A by j", "A by k", "B by j", "B by k", "C by j"]


def test_integers_of_any_width_find_each_other_in_one_pool() -> None:
    streams = STREAMS.replace("STREAM C (k INT", "STREAM C (k BIGINT")
    script = streams + "".join(
        f"CREATE QUERY q{n} AS {select(some, where)};"
        for n, (some, where) in enumerate([("AB", "A.k = B.k"), ("AC", "A.k = C.k")])
    )
    assert titles(compile_script(script)) == ["A by k", "B by k", "C by k"]


def test_a_stream_joined_with_itself_is_kept_once() -> None:
    plan = plan_of("SELECT x.k FROM A x, A y, A z WHERE x.k = y.k AND y.k = z.k WINDOW 3 SECONDS")
    assert titles(plan) == ["A by k"]
    assert lanes(plan.pools[0]) == [(3, 0)]
    assert plan.chains[0].pools == (plan.pools[0].name,) * 3


def test_a_pool_keeps_what_any_of_its_readers_needs_for_as_long_as_it_does() -> None:
    plan = plan_of(
        select("AB", "A.k = B.k", "AND A.v > 3 WINDOW 60 SECONDS"),
        select("AC", "A.k = C.k", "AND A.v > 3 AND A.j > 1 WINDOW 30 SECONDS"),
        select("CA", "A.k = C.k", "AND A.j > 1 WINDOW 20 SECONDS"),
        select("ABC", "A.k = B.k AND B.k = C.k", "WINDOW 5 SECONDS"),
    )
    a, b, c = plan.pools
    assert lanes(a) == [(60, 1), (20, 1), (5, 0)], "a condition that an earlier one implies has no lane of its own"
    assert lanes(b) == [(60, 0)]
    assert lanes(c) == [(30, 0)]


def test_a_chain_without_an_equality_has_pools_of_its_own() -> None:
    plan = plan_of(select("AB", "A.v < B.v"), select("AC", "A.v < C.v"), select("AB", "A.v > B.v", "WINDOW 9 SECONDS"))
    assert titles(plan) == ["A", "A", "B", "C"]
    assert sorted(len(plan.readers(pool.name)) for pool in plan.pools) == [1, 1, 1, 1], "its rows are all in one slot"
    assert {pool.spread.chain for pool in plan.pools} == {chain.signature for chain in plan.chains}


wheres = {
    "AB": "A.k = B.k",
    "BC": "B.j = C.j",
    "AC": "A.k = C.k",
    "ABC": "A.k = B.k AND B.j = C.j",
    "BCD": "B.k = C.k AND B.k = D.k",
}
selects_of = st.lists(
    st.tuples(
        st.sampled_from(sorted(wheres)),
        st.sampled_from(["", "v > 1", "v > 1 AND {0}.j > 2", "j > 2"]),
        st.integers(0, 2),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60)
@given(selects_of)
def test_every_query_finds_what_it_needs_in_the_first_lane_that_its_tuples_go_into(
    drawn: list[tuple[str, str, int, int]],
) -> None:
    selects = []
    for streams, condition, at, seconds in drawn:
        name = streams[at % len(streams)]
        rest = f"AND {name}.{condition.format(name)} " if condition else ""
        selects.append(select(streams, wheres[streams], f"{rest}WINDOW {seconds} SECONDS"))
    plan = plan_of(*selects)
    assert check_plan(plan) is plan
    assert len({pool.name for pool in plan.pools}) == len(plan.pools)
    for chain in plan.chains:
        for position, name in chain.read_at():
            pool = plan.pool(name)
            assert pool.stream == chain.streams[position]
            for member in chain.members:
                own = frozenset(map(in_pool, member.conditions[position]))
                # Whatever else a tuple of the query passes, the lane that takes it reaches far enough.
                taking = [lane for lane in pool.lanes if lane.condition <= own]
                assert taking
                before = pool.lanes[: pool.lanes.index(taking[0]) + 1]
                assert all(lane.reach >= member.reach(position) for lane in before)
    for pool in plan.pools:
        needed = [
            member.reach(position)
            for chain in plan.chains
            for position, name in chain.read_at()
            if name == pool.name
            for member in chain.members
        ]
        assert max(lane.reach for lane in pool.lanes) == max(needed), "and no farther than one needs"


def test_pools_do_not_depend_on_the_order_of_queries(planned: Callable[..., Plan]) -> None:
    selects = [select("AB", "A.k = B.k"), select("ABC", "A.k = B.k AND B.k = C.k"), select("BC", "B.j = C.j")]
    assert planned(*selects).pools == planned(*reversed(selects)).pools


@pytest.mark.parametrize("rest", ["WINDOW 5 SECONDS", "WINDOW 5 MINUTES", "AND A.v > 1 AND C.v > 2 WINDOW 1 SECOND"])
def test_pools_have_the_same_names_whatever_the_windows(rest: str) -> None:
    """A query that comes while others run needs no new state."""
    where = "A.k = B.k AND B.j = C.j"
    before, after = plan_of(select("ABC", where)), plan_of(select("ABC", where), select("ABC", where, rest))
    assert [pool.name for pool in before.pools] == [pool.name for pool in after.pools]
