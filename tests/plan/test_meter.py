"""What is measured of a load is what it was, whatever was shed or cut while it was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.plan.meter import ALL, BatchFacts, Demand, Meter, PoolHeld, Shares

QUERY = Demand(name="q", streams=("A", "B"), spans=((0, 60), (0, 30)), pools=("a", "b"))


def facts(shares: Shares, *, held: tuple[float, float] = (100, 100), event_seconds: float = 2.0) -> BatchFacts:
    """A second of ten rows of A and forty of B, at two seconds of event time a second: a pair in a hundred matches."""
    rows = {"A": 1_000, "B": 4_000}
    kept = {name: int(count * shares.of([name])) for name, count in rows.items()}
    met = 10 * 40 * (min(held[0], 60) + min(held[1], 30)) / 2 * shares.of(("A", "B")) * 100
    pools = {
        name: PoolHeld(nbytes=1.0, seconds=seconds, behind=5.0, parts=((reach, 7.0 * shares.of([stream])),))
        for name, stream, seconds, reach in (("a", "A", held[0], 60.0), ("b", "B", held[1], 30.0))
    }
    return BatchFacts(
        seconds=50.0,
        interval=100.0,
        rows=rows,
        kept=kept,
        given={"q": round(met * 0.01)},
        pairs=met,
        for_pairs=0.4,
        event_seconds=100 * event_seconds,
        pools=pools,
        memory=1e6,
    )


@given(st.floats(0.3, 1), st.floats(0.3, 1), st.floats(5, 100), st.floats(5, 100))
def test_a_load_is_the_same_whatever_was_shed_and_cut(one: float, other: float, a: float, b: float) -> None:
    shares, meter = Shares(rows={"A": one, "B": other}), Meter()
    for _ in range(5):
        meter.saw(facts(shares, held=(a, b)), [QUERY], shares)
    load = meter.load([QUERY], shares)
    assert load.rates == pytest.approx({"A": 10, "B": 40})
    assert load.queries[0].spans == ((0, 30), (0, 15))
    assert load.queries[0].selectivity == pytest.approx(0.01, rel=0.01)
    assert load.results == pytest.approx(10 * 40 * 45 * 0.01, rel=0.01)
    assert load.made[0].per_second == pytest.approx(10 * 40 * 45, rel=0.01)
    assert dict(load.parts("a")) == pytest.approx({30: 14.0})
    assert load.memory == 1e6


def test_what_is_not_met_is_not_learnt() -> None:
    """A pool that is cut to nothing tells nothing of how often its rows match; what was known stays."""
    meter = Meter()
    meter.saw(facts(ALL), [QUERY], ALL)
    for _ in range(20):
        meter.saw(facts(ALL, held=(0, 0)), [QUERY], ALL)
    assert meter.load([QUERY], ALL).queries[0].selectivity == pytest.approx(0.01, rel=0.01)


def test_rows_behind_the_watermark_are_there_in_any_case() -> None:
    meter = Meter()
    meter.saw(facts(ALL), [QUERY], ALL)
    assert meter.behind == pytest.approx(2 * 5 * 7.0)


def test_a_stream_without_rows_leaves_its_queries_out() -> None:
    meter = Meter()
    unknown = Demand(name="r", streams=("A", "C"), spans=((0, 1), (0, 1)), pools=("a", "c"))
    meter.saw(facts(ALL), [QUERY, unknown], ALL)
    assert [query.name for query in meter.load([QUERY, unknown], ALL).queries] == ["q"]
    assert Meter().load([QUERY], ALL).queries == ()
