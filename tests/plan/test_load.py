"""A load as plain numbers: results, pairs and bytes against sums made by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import InternalError
from millstream.plan.load import Load, PairsMade, QueryDemand, StreamRate, combinations, covered

STREAMS = (StreamRate("A", 10, row_cost=2, row_bytes=5), StreamRate("B", 40, row_cost=1, row_bytes=3))
NEAR = QueryDemand("near", ("A", "B"), ((0, 2), (0, 3)), 0.1, weight=2)
FAR = QueryDemand("far", ("A", "B"), ((1, 6), (0, 0)), 0.1)
LOAD = Load(streams=STREAMS, queries=(NEAR, FAR), pair_cost=0.5)


def test_results_work_and_bytes() -> None:
    assert LOAD.results_of(NEAR) == pytest.approx(0.1 * 10 * 40 * (2 + 3))
    assert LOAD.results_of(FAR) == pytest.approx(0.1 * 10 * 40 * 5)
    assert LOAD.results == pytest.approx(2 * 200 + 200)
    assert [one.per_second for one in LOAD.pairs] == pytest.approx([0.1 * 10 * 40 * (6 + 3)]), "what both need, once"
    assert LOAD.work == pytest.approx(10 * 2 + 40 + 0.5 * 360)
    assert LOAD.reaches == {"A": 6, "B": 3}
    assert LOAD.bytes == pytest.approx(10 * 5 * 6 + 40 * 3 * 3)


def test_three_streams_are_combined_by_whoever_is_last() -> None:
    assert combinations([2, 3, 5], [1, 10, 100]) == 30 * (10 * 100 + 1 * 100 + 1 * 10)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda ends: (min(ends), max(ends)))))
def test_spans_are_covered_once(spans: list[tuple[int, int]]) -> None:
    assert covered(spans) == len({second for start, end in spans for second in range(start, end)})


def test_less_of_the_rows_is_the_product_for_pairs_and_results() -> None:
    kept = replace(LOAD, made=(PairsMade(("A", "B"), 100.0),)).kept({"A": 0.5, "B": 0.2})
    assert kept.rates == {"A": 5, "B": 8}
    assert kept.pairs[0].per_second == pytest.approx(10)
    assert LOAD.completeness(kept) == pytest.approx({"near": 0.1, "far": 0.1})


def test_shorter_reaches_cut_windows_and_the_pairs_measured_with_them() -> None:
    cut = replace(LOAD, made=(PairsMade(("A", "B"), 90.0),)).within({"A": 3})
    assert cut.queries[1].spans == ((1, 3), (0, 0))
    assert cut.pairs[0].per_second == pytest.approx(90 * (3 + 3) / (6 + 3))
    assert LOAD.completeness(cut) == pytest.approx({"near": 1.0, "far": 2 / 5})


def test_a_reach_and_its_bytes_are_each_others_inverse() -> None:
    load = replace(LOAD, kept_for={"A": ((2.0, 30.0), (6.0, 10.0))})
    assert load.bytes_within("A", 4) == 30 * 2 + 10 * 4
    for reach in (0.5, 2.0, 3.0, 5.5):
        assert load.reach_of("A", load.bytes_within("A", reach)) == pytest.approx(reach)
    assert load.reach_of("A", 1_000) == inf


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InternalError, match="rates of C"):
        Load(streams=STREAMS, queries=(QueryDemand("q", ("A", "C"), ((0, 1), (0, 1)), 0.1),))
    with pytest.raises(InternalError, match="stream A"):
        StreamRate("A", -1)
    with pytest.raises(InternalError, match="two streams or more"):
        QueryDemand("q", ("A",), ((0, 1),), 0.1)
    mixed = Load(streams=STREAMS, queries=(replace(NEAR, pools=("p", "p")),))
    with pytest.raises(InternalError, match="pool p"):
        _ = mixed.pools
