"""The testing room: batches, a clock moved by hand, late rows, live changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from millstream.errors import ScriptError
from millstream.testing import Session, run

START = datetime(2024, 1, 1, tzinfo=UTC)
STREAMS = """
CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts', delay = '2 seconds', idle = '10 seconds');
CREATE STREAM B (k INT, Ts TIMESTAMP) WITH (time = 'Ts', delay = '2 seconds', idle = '10 seconds');
"""
SCRIPT = STREAMS + "CREATE QUERY q AS SELECT A.Ts AS a, B.Ts AS b FROM A, B WHERE A.k = B.k WINDOW 5 SECONDS;"


def at(*seconds: float) -> list[dict[str, Any]]:
    return [{"k": 1, "Ts": START + timedelta(seconds=second)} for second in seconds]


def test_rows_may_be_dicts_tables_or_batches_of_either() -> None:
    table = pa.Table.from_pylist(at(1, 2, 3))
    for given in (at(1, 2, 3), table, [at(1), at(2, 3)], [table.slice(0, 1), table.slice(1)]):
        for batches in (1, 3):
            assert run(SCRIPT, {"A": given, "B": at(2)}, batches=batches)["q"].num_rows == 3


def test_late_rows_are_kept_with_the_reason() -> None:
    session = Session(SCRIPT)
    session.feed({"A": at(20), "B": at(20)})
    session.feed({"A": [*at(17), *at(18), {"k": 1, "Ts": None}]})
    assert [(late.stream, late.reason, late.rows.num_rows) for late in session.late] == [
        ("A", "null time", 1),
        ("A", "older than the watermark", 1),
    ]
    assert session.results("q").num_rows == 2


def test_a_row_late_for_a_stream_joined_with_itself_is_late_once() -> None:
    join = "CREATE QUERY q AS SELECT x.Ts AS a, y.Ts AS b FROM A x, A y WHERE x.k = y.k WINDOW 5 SECONDS;"
    session = Session(STREAMS + join)
    session.feed({"A": at(20)})
    session.feed({"A": at(17)})
    assert [late.rows.num_rows for late in session.late] == [1]
    assert session.results("q").num_rows == 1


def test_the_watermark_is_that_of_earlier_batches() -> None:
    """Within a batch nothing is late, however far apart its times are."""
    session = Session(SCRIPT)
    session.feed({"A": at(100, 1), "B": at(100, 1)})
    assert session.late == []
    assert session.results("q").num_rows == 2


def test_a_silent_stream_holds_back_the_watermark_until_it_is_idle() -> None:
    session = Session(SCRIPT)
    session.feed({"A": at(0), "B": at(0)})
    session.feed({"A": at(100)})
    session.feed({"A": at(50)})
    assert session.late == [], "B is at 0, so nothing of A is late"
    session.advance("11 seconds")
    session.feed({"A": at(120)})
    session.feed({"A": at(117), "B": at(118)})
    assert [(late.stream, late.rows.num_rows) for late in session.late] == [("A", 1)]
    assert session.results("q").num_rows == 2


def test_state_is_dropped_when_nothing_can_need_it() -> None:
    session = Session(SCRIPT)
    for second in range(0, 200, 10):
        session.feed({"A": at(second), "B": at(second)})
    held = [segment for pool in session.engine.pools() for segment in pool.segments]
    assert sum(len(segment) for segment in held) <= 4


def test_a_changed_script_goes_on_with_its_state() -> None:
    session = Session(SCRIPT)
    session.feed({"A": at(1)})
    wider = SCRIPT + "CREATE QUERY w AS SELECT A.Ts AS a FROM A, B WHERE A.k = B.k WINDOW 9 SECONDS;"
    session.change(wider)
    session.feed({"B": at(3)})
    assert (session.results("q").num_rows, session.results("w").num_rows) == (1, 1)


def test_a_join_without_an_equality_compares_all_pairs_in_the_window() -> None:
    script = STREAMS + "CREATE QUERY q AS SELECT A.k AS a, B.k AS b FROM A, B WHERE A.k < B.k WINDOW 3 SECONDS;"
    rows = {"A": [{"k": n, "Ts": START + timedelta(seconds=n)} for n in range(6)]}
    rows["B"] = rows["A"]
    for batches in (1, 4):
        found = run(script, rows, batches=batches)["q"].to_pylist()
        wanted = [(a, b) for a in range(6) for b in range(6) if a < b < a + 3]
        assert sorted((row["a"], row["b"]) for row in found) == wanted


def test_names_in_dicts_may_be_in_any_case_of_letters() -> None:
    loud = [{"K": row["k"], "TS": row["Ts"]} for row in at(1, 2)]
    assert run(SCRIPT, {"A": loud, "B": at(1)})["q"].num_rows == 2


def test_a_replaced_query_begins_with_no_results() -> None:
    session = Session(SCRIPT)
    session.feed({"A": at(1), "B": at(1)})
    assert session.results("q").num_rows == 1
    session.change(SCRIPT)
    assert session.results("q").num_rows == 1, "it is the same query"
    session.change(SCRIPT.replace("A.Ts AS a, B.Ts AS b", "A.k AS k").replace("WINDOW 5", "WINDOW 4"))
    assert session.results("q").to_pylist() == []
    session.feed({"A": at(2)})
    assert session.results("q").to_pylist() == [{"k": 1}]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: run(SCRIPT, {"C": []}), 'rows for "C"'),
        (lambda: run(SCRIPT, {}, runner="abacus"), "runner"),
        (lambda: run(SCRIPT, {}, batches=0), "batches"),
        (lambda: Session(SCRIPT).results("nope"), 'no query "nope"'),
        (lambda: Session(SCRIPT).advance("soon"), "not a length of time"),
        (lambda: run(SCRIPT, {"A": pa.table({"k": [1]})}), 'no column "Ts"'),
        (lambda: run(SCRIPT, {"A": [{"k": 1}]}), 'a row of A has no "Ts"; its columns are k, Ts'),
        (lambda: run(SCRIPT, {"A": [{"k": 1, "Tss": START}]}), 'for "tss"; its columns are k, Ts. Did you mean "Ts"'),
        (lambda: Session(SCRIPT).change(SCRIPT.replace("k INT", "k BIGINT")), "stream A is not what it was"),
        (lambda: Session(SCRIPT).change(SCRIPT.replace("STREAM A", "STREAM a")), "stream a is not what it was"),
        (lambda: run(SCRIPT, {"A": pa.table({"k": ["x"], "Ts": [START]})}), "declared as"),
    ],
)
def test_wrong_calls_are_told_apart(call: Any, words: str) -> None:
    with pytest.raises(ScriptError, match=words):
        call()
