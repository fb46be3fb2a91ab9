"""Pairs: views, parts and picks are what plain gathers give; who fails is told by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine import widths
from millstream.engine.compiled_chain import owners_at
from millstream.engine.keys import codes
from millstream.engine.pairs import Conditions, MemberRun, Pairs, blaming, building, wide_columns
from millstream.engine.segment import Lot, Segment, build
from millstream.errors import InternalError, MillstreamError, QueryFailed, ScriptError
from millstream.model.expr import Column
from millstream.model.types import BIGINT, STRING
from millstream.plan.nodes import Member

COLUMNS = "id BIGINT, s STRING, v INT, Ts TIMESTAMP"
WIDE = (("s",), ("s",))


def segment(rows: int, shift: int) -> Segment:
    ids = pa.array(range(shift, shift + rows), pa.int64())
    columns = {
        "id": ids,
        "s": pa.array([None if one % 5 == 4 else "x" * (one % 7) for one in range(shift, shift + rows)], pa.string()),
        "v": pa.array([one % 3 for one in range(rows)], pa.int32()),
        "Ts": pa.array([one * 10 for one in range(rows)], pa.int64()).view(pa.timestamp("us", "UTC")),
    }
    return build(1, 1, Lot(9), pa.RecordBatch.from_pydict(columns), "Ts", codes([], rows))


LEFT_ROWS, RIGHT_ROWS = segment(6, 0), segment(8, 100)
indices = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=12)


def pairs_of(rows: list[tuple[int, int]]) -> Pairs:
    left, right = (np.array([row[side] for row in rows], dtype=np.int64) for side in (0, 1))
    return Pairs((LEFT_ROWS, RIGHT_ROWS), (left, right), {})


def check(pairs: Pairs, rows: list[tuple[int, int]]) -> None:
    """Everything there is to ask of pairs, against Arrow's own rows."""
    assert len(pairs) == len(rows)
    for source, one in enumerate((LEFT_ROWS, RIGHT_ROWS)):
        for name, kind in (("id", BIGINT), ("s", STRING)):
            column = one.rows.column(name).to_pylist()
            wanted = [column[row[source]] for row in rows]
            assert pairs.column(Column(source, name, kind)).to_pylist() == wanted
    assert pairs.on_axis().tolist() == [(b - a) * 10 for a, b in rows]


@given(rows=indices, data=st.data())
def test_views_parts_and_picks_are_plain_gathers(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    pairs = pairs_of(rows)
    for step in data.draw(st.lists(st.sampled_from(["part", "stretch", "at", "look"]), max_size=5)):
        if step == "at":
            most = max(len(rows) - 1, 0)
            positions = data.draw(st.lists(st.integers(0, most), max_size=9)) if rows else []
            pairs, rows = pairs.at(np.array(positions, dtype=np.int64)), [rows[one] for one in positions]
        elif step == "look":
            check(pairs, rows)
        else:
            start = data.draw(st.integers(0, len(rows)))
            stop = data.draw(st.integers(start, len(rows)))
            pairs = pairs.part(start, stop) if step == "part" else pairs.stretch(start, stop)
            rows = rows[start:stop]
    check(pairs, rows)


@given(rows=indices, most=st.integers(1, 40), wide=st.sampled_from([WIDE, (("s",), ()), ((), ("s",))]))
def test_pairs_are_cut_so_that_what_they_take_can_be_gathered(
    rows: list[tuple[int, int]], most: int, wide: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(widths, "CHUNK_BYTES", most)
        parts = list(pairs_of(rows).cut(wide))
        assert len(list(pairs_of(rows).cut(((), ())))) == 1, "nothing wide is asked for"
    texts = [one.rows.column("s").to_pylist() for one in (LEFT_ROWS, RIGHT_ROWS)]
    done = 0
    for part in parts:
        own = rows[done : done + len(part)]
        check(part, own)
        size = sum(len(texts[side][row[side]] or "") for row in own for side in (0, 1) if wide[side])
        assert size <= most or len(own) == 1
        done += len(part)
    assert done == len(rows)


def test_a_column_is_gathered_once_for_the_whole_and_its_larger_stretches() -> None:
    pairs, column = pairs_of([(n % 6, n % 8) for n in range(10)]), Column(0, "id", BIGINT)
    large, small = pairs.stretch(0, 6), pairs.stretch(8, 10)
    small.column(column)
    found = large.column(column)
    assert pairs.column(column) is pairs.column(column)
    assert found.buffers()[1].address == pairs.column(column).buffers()[1].address
    assert pairs.stretch(0, 10) is pairs


def test_a_column_of_the_key_is_taken_from_the_other_side() -> None:
    rows = np.array([3, 0]), np.array([7, 7])
    pairs = Pairs((LEFT_ROWS, RIGHT_ROWS), rows, {(1, "id"): (0, "id")})
    assert pairs.column(Column(1, "id", BIGINT)).to_pylist() == [3, 0]


OTHER_ROWS = segment(5, 200)
triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7), st.integers(0, 4)), max_size=12)


def triples_of(rows: list[tuple[int, int, int]]) -> Pairs:
    some = tuple(np.array([row[at] for row in rows], dtype=np.int64) for at in range(3))
    return Pairs((LEFT_ROWS, RIGHT_ROWS, OTHER_ROWS), some, {})


@given(rows=triples)
def test_three_rows_lie_on_the_axis_by_their_span(rows: list[tuple[int, int, int]]) -> None:
    pairs = triples_of(rows)
    assert pairs.on_axis().tolist() == [10 * (max(row) - min(row)) for row in rows]
    assert [times.tolist() for times in pairs.times()] == [[10 * row[at] for row in rows] for at in range(3)]
    assert pairs.column(Column(2, "id", BIGINT)).to_pylist() == [200 + row[2] for row in rows]


def test_a_position_that_a_walk_has_not_come_to_has_no_rows() -> None:
    rows = np.array([3, 0])
    pairs = Pairs((LEFT_ROWS, None, OTHER_ROWS), (rows, None, rows), {(2, "id"): (0, "id")})
    assert len(pairs) == 2
    assert [position for position, *_ in pairs.placed()] == [0, 2]
    for some, wanted in ((pairs.at(np.array([1])), [0]), (pairs.part(0, 1), [3]), (pairs.stretch(0, 1), [3])):
        assert some.column(Column(2, "id", BIGINT)).to_pylist() == wanted
        assert [position for position, *_ in some.placed()] == [0, 2]
    with pytest.raises(InternalError, match="position 1 is asked for before"):
        pairs.column(Column(1, "id", BIGINT))


@given(rows=triples)
def test_a_query_of_three_streams_takes_what_is_within_all_its_bounds(rows: list[tuple[int, int, int]]) -> None:
    plain, odd = members(
        "A.id FROM A, B, C WHERE A.v = B.v AND B.v = C.v WINDOW 30 MICROSECONDS",
        "A.id FROM A, B, C WHERE A.v = B.v AND B.v = C.v AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL 20 MICROSECONDS"
        " AND C.Ts BETWEEN B.Ts - INTERVAL 10 MICROSECONDS AND B.Ts + INTERVAL 30 MICROSECONDS",
    )
    pairs = triples_of(rows)
    run = MemberRun(plain, {}, 0)
    assert run.in_window(pairs) is None, "the span says it all"
    assert run.takes_all
    other = MemberRun(odd, {}, 0)
    assert not other.takes_all
    kept = other.in_window(pairs)
    assert kept is not None
    assert kept.tolist() == [0 <= b - a <= 2 and -1 <= c - b <= 3 for a, b, c in rows]


def members(*queries: str) -> list[Member]:
    script = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "ABC")
    script += "".join(f"CREATE QUERY q{number} AS SELECT {query};" for number, query in enumerate(queries))
    (chain,) = compile_script(script).chains
    return sorted(chain.members, key=lambda member: member.name)


JOIN = "FROM A, B WHERE A.v = B.v"


def test_queries_that_differ_in_their_windows_only_are_a_family() -> None:
    some = members(
        f"A.id {JOIN} WINDOW 1 SECOND",
        f"A.id {JOIN} WINDOW 2 SECONDS",
        f"A.id AS x {JOIN} WINDOW 1 SECOND",
        f"A.id {JOIN} AND A.id > 1 WINDOW 1 SECOND",
        f"A.id {JOIN} AND B.id > 1 WINDOW 1 SECOND",
        f"A.id {JOIN} AND A.id > B.id WINDOW 1 SECOND",
        "A.id FROM B, A WHERE A.v = B.v WINDOW 3 SECONDS",
    )
    runs = [MemberRun(member, {}, 0) for member in some]
    families = [run.group for run in runs]
    assert families[0] == families[1] == families[6]
    assert len(set(families)) == 5
    assert [run.takes_all for run in runs] == [True, True, True, False, False, False, True]


@given(rows=indices)
def test_a_query_has_its_select_list_and_its_residual_over_pairs(rows: list[tuple[int, int]]) -> None:
    one, flipped = members(
        f"A.id + B.id AS total, 7 AS seven, B.s AS s {JOIN} AND A.id * 20 < B.id WINDOW 1 HOUR",
        "B.id AS b, A.id AS a FROM B, A WHERE A.v = B.v WINDOW 1 HOUR",
    )
    pairs, texts = pairs_of(rows), RIGHT_ROWS.rows.column("s").to_pylist()
    run = MemberRun(one, {}, 0)
    assert run.rows(pairs).to_pylist() == [{"total": a + b + 100, "seven": 7, "s": texts[b]} for a, b in rows]
    passing = run.residual(pairs)
    assert (passing.tolist() if passing is not None else []) == [n for n, (a, b) in enumerate(rows) if a * 20 < b + 100]
    assert run.wide == ((), ("s",))
    turned = MemberRun(flipped, {}, 0)
    assert turned.rows(pairs).to_pylist() == [{"b": b + 100, "a": a} for a, b in rows]
    assert turned.residual(pairs) is None


def test_wide_columns_are_those_whose_type_does_not_say_their_width() -> None:
    assert wide_columns([Column(1, "s", STRING), Column(0, "id", BIGINT), Column(0, "s", STRING)], 2) == WIDE
    assert wide_columns([Column(2, "s", STRING)], 4) == ((), (), ("s",), ())


def test_a_selection_that_fails_is_told_of_the_queries_that_ask_for_it() -> None:
    some = members(
        f"A.id {JOIN} AND CAST(A.s AS INT) > 1 WINDOW 1 SECOND",
        f"A.id {JOIN} AND CAST(A.s AS INT) > 1 WINDOW 2 SECONDS",
        f"A.id {JOIN} AND A.id > 2 WINDOW 1 SECOND",
    )
    runs = [MemberRun(member, {}, 0) for member in some]
    conditions = Conditions({}, owners_at(some, 0))
    assert conditions.passed(LEFT_ROWS, runs[2].conditions[0]).tolist() == [one > 2 for one in range(6)]
    with pytest.raises(QueryFailed) as failure:
        conditions.passed(LEFT_ROWS, runs[0].conditions[0])
    assert failure.value.queries == ("q0", "q1")


def test_a_select_list_that_fails_is_its_querys_failure() -> None:
    (one,) = members(f"CAST(A.s AS INT) AS n {JOIN} WINDOW 1 SECOND")
    run = MemberRun(one, {}, 0)
    with pytest.raises(QueryFailed) as failure:
        run.rows(pairs_of([(1, 1)]))
    assert failure.value.queries == ("q0",)


@pytest.mark.parametrize("context", [blaming, building])
def test_whatever_is_raised_is_a_failure_of_the_queries(context: type) -> None:
    with pytest.raises(QueryFailed) as failure, context(["b", "a"]):
        raise KeyError("odd")
    assert failure.value.queries == ("a", "b")
    assert isinstance(failure.value.__cause__, KeyError)
    inner = QueryFailed(["c"], "known")
    with pytest.raises(QueryFailed) as failure, context(["a"]):
        raise inner
    assert failure.value is inner


def test_on_rows_an_error_of_ours_stays_what_it_is() -> None:
    error: MillstreamError = ScriptError("found", "valid", "todo")
    with pytest.raises(ScriptError) as failure, blaming(["a"]):
        raise error
    assert failure.value is error
