"""Statistics at run time: what batches have shown, against sums that are written out, and what is forgotten."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.gauges import Measurements, PairCounts, StepTimes, condition_name
from millstream.model.duration import SECOND
from millstream.pipeline.measuring import Ratio, RunStatistics
from millstream.plan import Plan
from millstream.plan.costs import Calibration
from millstream.plan.statistics import in_pool

FADES = 0.9
"""What the module promises: a batch counts for so much of what the next one counts for."""
STREAMS = """
CREATE STREAM A (k INT, j INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', rate = 100, keys = 50);
CREATE STREAM B (k INT, j INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', rate = 100, keys = 50);
CREATE STREAM C (k INT, j INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', rate = 1, keys = 50);
"""


def planned(*queries: str) -> Plan:
    script = "".join(f"CREATE QUERY q{n} AS SELECT A.v FROM {query};" for n, query in enumerate(queries))
    return compile_script(STREAMS + script)


PAIR = planned("A, B WHERE A.k = B.k AND A.v > 1 AND B.v < 2 WINDOW 9 SECONDS")
THREE = planned("A, B, C WHERE A.k = B.k AND B.j = C.j WINDOW 9 SECONDS")
(CHAIN,) = PAIR.chains
SELECTION = frozenset(map(in_pool, PAIR.members[0].left))


def learned(
    known: RunStatistics, plan: Plan = PAIR, *measured: Measurements, seconds: float | None = None, **moved: int
) -> RunStatistics:
    """After a batch of 10 rows of every stream, whose times went on by so many microseconds."""
    names = [stream.name for stream in plan.script.streams]
    before = dict.fromkeys(moved, 1_000)
    after = {name: 1_000 + by for name, by in moved.items()}
    known.learn(plan, measured, rows=dict.fromkeys(names, 10), before=before, after=after, seconds=seconds)
    return known


def faded(pairs: Sequence[tuple[float, float]]) -> float:
    """The ratio of two sums in which what is older counts for less."""
    weights = [FADES ** (len(pairs) - 1 - at) for at in range(len(pairs))]
    amount = sum(weight * one for weight, (one, _) in zip(weights, pairs, strict=True))
    return amount / sum(weight * of for weight, (_, of) in zip(weights, pairs, strict=True))


counts = st.integers(1, 10**6)


@given(st.lists(st.tuples(counts, counts, st.floats(0.01, 100)), min_size=1, max_size=30))
def test_rates_are_rows_over_event_time_and_over_the_clock(batches: list[tuple[int, int, float]]) -> None:
    known, greatest = RunStatistics(), 5 * SECOND
    for rows, moved, seconds in batches:
        before, greatest = greatest, greatest + moved
        known.learn(PAIR, [], rows={"A": rows}, before={"A": before}, after={"A": greatest}, seconds=seconds)
    rate = faded([(rows, moved / SECOND) for rows, moved, _ in batches])
    assert known.statistics(PAIR).rates == {"A": pytest.approx(rate)}
    assert known.arrivals["A"].value == pytest.approx(faded([(rows, seconds) for rows, _, seconds in batches]))
    assert known.batches == len(batches)


def test_a_stream_whose_time_stands_still_or_is_new_has_no_rate_by_event_time() -> None:
    known = learned(RunStatistics(), seconds=2.0, A=0, B=-5)
    assert known.rates == {}, "nothing is known of C: it had no time before"
    assert {name: one.value for name, one in known.arrivals.items()} == {"A": 5, "B": 5, "C": 5}
    assert learned(RunStatistics(), A=SECOND).arrivals == {}, "no clock, no arrivals"


def test_the_newest_rate_soon_counts_most() -> None:
    known = RunStatistics()
    for _ in range(50):
        learned(known, A=SECOND)
    for _ in range(30):
        learned(known, A=SECOND // 10)
    assert known.statistics(PAIR).rates["A"] == pytest.approx(100, rel=0.5)


def test_keys_are_added_over_slots_that_have_different_ones_else_the_most_of_a_slot_count() -> None:
    """In a join of three streams by two keys one of them spreads the rows; what is found by the other lies everywhere
    or is mixed.
    """
    own = [pool.name for pool in THREE.pools if pool.is_routed]
    mixed = [pool.name for pool in THREE.pools if not pool.is_routed]
    assert own
    assert mixed
    counted = [dict.fromkeys((*own, *mixed), 3.0 + 2 * slot) for slot in range(3)]
    known = learned(RunStatistics(), THREE, *(Measurements(keys=keys) for keys in counted))
    assert known.keys == {**dict.fromkeys(own, 15.0), **dict.fromkeys(mixed, 7.0)}


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30))
def test_counts_of_keys_are_smoothed(found: list[float]) -> None:
    known = RunStatistics()
    name = CHAIN.pools[0]
    for count in found:
        learned(known, PAIR, Measurements(keys={name: count}))
    wanted = found[0] * FADES ** (len(found) - 1)
    wanted += sum(count * (1 - FADES) * FADES ** (len(found) - 2 - at) for at, count in enumerate(found[1:]))
    assert known.keys[name] == pytest.approx(wanted)
    assert known.statistics(PAIR).key_counts == {CHAIN.streams[0].name: pytest.approx(wanted)}


def test_keys_of_a_stream_without_rows_stay_as_they_were() -> None:
    (name, other), known = CHAIN.pools, RunStatistics()
    learned(known, PAIR, Measurements(keys={name: 40.0, other: 40.0}))
    later = [Measurements(keys={name: 2.0, other: 0.0})]
    known.learn(PAIR, later, rows={"B": 5}, before={}, after={}, seconds=None)
    assert known.keys == {name: 40.0, other: 40.0}


samples = st.lists(
    st.lists(st.tuples(st.integers(1, 256), st.integers(0, 256)), min_size=1, max_size=3), min_size=1, max_size=12
)


@given(samples)
def test_the_share_that_passes_a_selection_is_over_all_slots(batches: list[list[tuple[int, int]]]) -> None:
    known, key = RunStatistics(), (CHAIN.pools[0], condition_name(SELECTION))
    for slots in batches:
        learned(known, PAIR, *(Measurements(passed={key: (rows, passed)}) for rows, passed in slots))
    wanted = faded([(sum(passed for _, passed in slots), sum(rows for rows, _ in slots)) for slots in batches])
    stream = CHAIN.streams[0]
    assert known.statistics(PAIR).selections == {(stream.name, SELECTION): pytest.approx(wanted)}
    assert known.statistics(PAIR).selection(stream, PAIR.members[0].left) == pytest.approx(wanted), "as it is asked for"


def test_a_selection_that_lets_nothing_pass_is_known_as_such() -> None:
    key = (CHAIN.pools[0], condition_name(SELECTION))
    known = learned(RunStatistics(), PAIR, Measurements(passed={key: (50, 0)}))
    assert known.statistics(PAIR).selections == {("A", SELECTION): 0.0}


@given(samples)
def test_joins_are_pairs_over_candidates_of_all_slots(batches: list[list[tuple[int, int]]]) -> None:
    known = RunStatistics()
    for slots in batches:
        found = [
            Measurements(pairs={CHAIN.signature: PairCounts(pairs, within), "gone": PairCounts(1, 1)})
            for within, pairs in slots
        ]
        learned(known, PAIR, *found)
    wanted = faded([(sum(pairs for _, pairs in slots), sum(within for within, _ in slots)) for slots in batches])
    joins = known.statistics(PAIR).joins
    assert joins == ({CHAIN.signature: pytest.approx(wanted)} if wanted else {})


def test_a_chain_that_had_nothing_to_join_keeps_its_selectivity() -> None:
    known = learned(RunStatistics(), PAIR, Measurements(pairs={CHAIN.signature: PairCounts(1, 4)}))
    learned(known, PAIR, Measurements(pairs={CHAIN.signature: PairCounts(0, 0)}), Measurements())
    assert known.statistics(PAIR).joins == {CHAIN.signature: 0.25}


def steps(**found: tuple[int, int]) -> Measurements:
    spent = {name: one for name, (one, _) in found.items()}
    return Measurements(steps=StepTimes(spent, {name: times for name, (_, times) in found.items()}))


OFTEN = 50_000


def test_costs_are_mean_times_of_steps_that_were_done_often() -> None:
    base = Calibration()
    known = learned(
        RunStatistics(),
        PAIR,
        steps(insert=(100 * OFTEN, OFTEN), scan=(OFTEN, OFTEN), emit=(3 * OFTEN, OFTEN), route=(9_999 * 2, 9_999)),
        steps(insert=(200 * OFTEN, OFTEN), append=(90 * OFTEN, OFTEN), expire=(20 * OFTEN, 7)),
    )
    found = known.calibration(base)
    assert found.index_insert == 150 + 10, "expiring belongs to what an index costs"
    assert (found.scan_append, found.scan_compare, found.pair_emit) == (90, 1, 3)
    assert found.route == base.route, "too seldom to say"
    unchanged = {"index_insert", "scan_append", "scan_compare", "pair_emit"}
    assert {name: one for name, one in asdict(found).items() if name not in unchanged} == {
        name: one for name, one in asdict(base).items() if name not in unchanged
    }


@given(st.dictionaries(st.sampled_from(["insert", "append", "scan", "emit", "route"]), st.integers(0, 10**6)))
def test_no_cost_is_believed_beyond_ten_times_the_calibration(nanoseconds: dict[str, int]) -> None:
    base = Calibration()
    known = learned(RunStatistics(), PAIR, steps(**{name: (one * OFTEN, OFTEN) for name, one in nanoseconds.items()}))
    found = known.calibration(base)
    for one in fields(Calibration):
        assert getattr(base, one.name) / 10 <= getattr(found, one.name) <= getattr(base, one.name) * 10
    for step, name in (("insert", "index_insert"), ("append", "scan_append"), ("scan", "scan_compare")):
        if nanoseconds.get(step):
            usual = getattr(base, name)
            assert getattr(found, name) == pytest.approx(min(max(nanoseconds[step], usual / 10), usual * 10))


def test_what_is_spent_is_all_steps_over_the_mean_event_time() -> None:
    known = learned(RunStatistics(), PAIR, steps(insert=(3_000_000, 1)), steps(emit=(1_000_000, 1)), A=SECOND)
    learned(known, PAIR, steps(insert=(2_000_000, 1)), A=SECOND, B=3 * SECOND)
    assert known.spent.value == pytest.approx(faded([(4, 1), (2, 2)]))
    before = known.spent.value
    assert learned(known, PAIR, steps(emit=(9, 9))).spent.value == before, "no time went by"


ratios = st.dictionaries(st.text(max_size=4), st.builds(Ratio, st.floats(0, 1e15), st.floats(1e-6, 1e15)), max_size=3)
run_statistics = st.builds(
    RunStatistics,
    batches=st.integers(0, 10**9),
    rates=ratios,
    arrivals=ratios,
    keys=st.dictionaries(st.text(max_size=4), st.floats(1, 1e9), max_size=3),
    passed=ratios,
    joins=ratios,
    steps=ratios,
    spent=st.builds(Ratio, st.floats(0, 1e15), st.floats(1e-6, 1e15)),
)


@given(run_statistics)
def test_saved_and_read_back_they_are_the_same_but_for_a_trifle(known: RunStatistics) -> None:
    read = RunStatistics.from_json(json.loads(json.dumps(known.to_json())))
    assert read.batches == known.batches
    assert read.keys == pytest.approx(known.keys, abs=0.06)
    assert read.spent.value == pytest.approx(known.spent.value, rel=1e-4)
    for name in ("rates", "arrivals", "passed", "joins", "steps"):
        one, other = getattr(read, name), getattr(known, name)
        assert {key: ratio.value for key, ratio in one.items()} == {
            key: pytest.approx(ratio.value, rel=1e-4) for key, ratio in other.items()
        }
        assert {key: ratio.of for key, ratio in one.items()} == {
            key: pytest.approx(ratio.of, rel=1e-5) for key, ratio in other.items()
        }
    again = RunStatistics.from_json(json.loads(json.dumps(read.to_json())))
    assert again.to_json() == read.to_json(), "what was saved once does not drift"


def test_nothing_saved_is_nothing_known() -> None:
    assert RunStatistics.from_json({}) == RunStatistics()


def shown(plan: Plan) -> Measurements:
    """A measurement of everything that there is in a plan."""
    passed = {
        (pool, condition_name(frozenset(map(in_pool, member.conditions[position])))): (10, 5)
        for chain in plan.chains
        for position, pool in chain.read_at()
        for member in chain.members
        if member.conditions[position]
    }
    return Measurements(
        pairs={chain.signature: PairCounts(1, 2) for chain in plan.chains},
        keys={pool.name: 5.0 for pool in plan.pools},
        passed=passed,
    )


def test_what_has_left_the_plan_is_forgotten_so_that_the_manifest_does_not_grow() -> None:
    known, sizes = RunStatistics(), []
    for number in range(30):
        plan = planned(
            f"A, B WHERE A.k + {number} = B.k AND A.v > {number} WINDOW 9 SECONDS",
            f"A, B WHERE A.k = B.k AND B.v < {number} AND A.v > 1 WINDOW {number + 1} SECONDS",
        )
        for _ in range(2):
            learned(known, plan, shown(plan), seconds=1.0, A=SECOND, B=SECOND, C=SECOND)
        assert {*known.joins} == {chain.signature for chain in plan.chains}
        assert {*known.keys} == {pool.name for pool in plan.pools}
        assert len(known.passed) == 3
        sizes.append(len(json.dumps(known.to_json())))
    assert max(sizes) < 1.2 * sizes[0]
    stayed = frozenset(map(in_pool, plan.members[1].left))
    assert known.statistics(plan).selections["A", stayed] == 0.5
    fewer = compile_script(
        "CREATE STREAM A (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');"
        "CREATE QUERY q AS SELECT A.v FROM A, A AS O WHERE A.k = O.k WINDOW 9 SECONDS;"
    )
    known.learn(fewer, [], rows={}, before={}, after={}, seconds=None)
    assert {*known.rates} == {*known.arrivals} == {"A"}
    assert known.passed == {}
    assert known.joins == {}


def test_what_was_read_back_is_forgotten_too_where_the_plan_has_changed() -> None:
    """A run may begin with a changed script."""
    known = learned(RunStatistics(), PAIR, shown(PAIR))
    read = RunStatistics.from_json(known.to_json())
    learned(read, THREE, shown(THREE))
    assert {*read.joins} == {chain.signature for chain in THREE.chains}
    assert not {*read.passed} & {*known.passed}
