"""Idle is who was asked and had nothing; rows far in the future move no watermark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine import watermark
from millstream.engine.watermark import FAR, NEVER, StreamClock, chain_watermark
from millstream.model.stream import Stream, StreamColumn
from millstream.model.types import TIMESTAMP
from millstream.testing import Session, run

SECOND = 1_000_000
START = datetime(2024, 1, 1, tzinfo=UTC)
SCRIPT = """
CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (k INT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE QUERY q AS SELECT A.Ts AS a, B.Ts AS b FROM A, B WHERE A.k = B.k WINDOW 5 SECONDS;
"""


def clock(idle: int | None) -> StreamClock:
    return StreamClock(Stream("A", (StreamColumn("Ts", TIMESTAMP),), "Ts", idle=idle))


def at(*seconds: float) -> list[dict[str, Any]]:
    return [{"k": 1, "Ts": START + timedelta(seconds=second)} for second in seconds]


def test_silence_is_counted_from_the_first_time_a_stream_was_asked_in_vain() -> None:
    one = clock(5 * SECOND)
    one.saw(100)
    one.had_nothing(60 * SECOND)
    assert not one.is_idle, "a minute in which nobody asked is no silence"
    one.had_nothing(65 * SECOND)
    assert not one.is_idle
    one.had_nothing(65 * SECOND + 1)
    assert one.is_idle
    one.saw(200)
    assert not one.is_idle
    one.had_nothing(90 * SECOND)
    assert not one.is_idle


def test_a_stream_without_idle_is_never_idle() -> None:
    one = clock(None)
    one.had_nothing(0)
    one.had_nothing(2**60)
    assert not one.is_idle


def test_a_chain_waits_for_its_slowest_stream_that_is_not_idle() -> None:
    fast, slow = clock(SECOND), clock(SECOND)
    fast.saw(50 * SECOND)
    slow.saw(10 * SECOND)
    assert chain_watermark([fast, slow]) == 10 * SECOND
    for now in (0, 2 * SECOND):
        slow.had_nothing(now)
    assert chain_watermark([fast, slow]) == 50 * SECOND
    for now in (0, 2 * SECOND):
        fast.had_nothing(now)
    assert chain_watermark([fast, slow]) == NEVER


@given(st.lists(st.integers(-100, 100), max_size=8), st.integers(0, 50))
def test_a_watermark_is_the_greatest_time_less_the_delay_and_never_falls(times: list[int], delay: int) -> None:
    one = StreamClock(Stream("A", (StreamColumn("Ts", TIMESTAMP),), "Ts", delay=delay))
    assert one.watermark == NEVER
    reached = []
    for seen in times:
        one.saw(seen)
        reached.append(one.watermark)
    assert reached == [max(times[: n + 1]) - delay for n in range(len(times))]


def test_a_horizon_lies_beyond_the_times_seen_and_beyond_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermark, "today", lambda: 1_000)
    one = clock(None)
    assert one.horizon(50) == 1_050
    one.saw(2_000)
    assert one.horizon(50) == 2_050
    assert one.horizon(0) == FAR


def test_one_row_of_the_year_2200_moves_no_watermark() -> None:
    session = Session(SCRIPT)
    far = {"k": 1, "Ts": datetime(2200, 1, 1, tzinfo=UTC)}
    session.feed({"A": [*at(1), far], "B": [*at(2), far]})
    session.feed({"A": at(3), "B": at(4)})
    assert session.results("q").num_rows == 4
    assert [(late.stream, late.reason, late.rows.num_rows) for late in session.late] == [
        ("A", "in the future", 1),
        ("B", "in the future", 1),
    ]


def test_what_comes_step_by_step_is_never_too_far() -> None:
    """Event time may run ahead of the clock as far as it likes, a limit at a time."""
    now = datetime.now(UTC)
    days = [{"k": 1, "Ts": now + timedelta(days=25 * number)} for number in range(8)]
    rows = {name: [[day] for day in days] for name in "AB"}
    assert run(SCRIPT, rows)["q"].num_rows == 8
    assert run(SCRIPT, rows, settings={"future": "20 days"})["q"].num_rows == 1


def test_the_limit_can_be_switched_off() -> None:
    far = [{"k": 1, "Ts": datetime(2200, 1, 1, tzinfo=UTC)}]
    assert run(SCRIPT, {"A": far, "B": far}, settings={"future": "0 s"})["q"].num_rows == 1
    assert run(SCRIPT, {"A": far, "B": far})["q"].num_rows == 0


@pytest.mark.parametrize("runner", ["engine", "spark"])
def test_rows_late_for_one_chain_only(runner: str) -> None:
    """C has not come so far: a row late for A-B may still meet C."""
    script = SCRIPT + (
        "CREATE STREAM C (k INT, Ts TIMESTAMP) WITH (time = 'Ts');"
        "CREATE QUERY r AS SELECT A.Ts AS a, C.Ts AS c FROM A, C WHERE A.k = C.k WINDOW 5 SECONDS;"
    )
    rows = {"A": [at(50), at(20)], "B": [at(50), at(20)], "C": [at(18), at(20)]}
    found = run(script, rows, runner=runner)
    assert found["q"].num_rows == 1
    assert found["r"].num_rows == 2
