"""Bounds on the times of three and more streams: what a query means is the tightest interval of every pair."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import sql
from millstream.errors import Errors, ScriptError
from millstream.model import Bound, Interval, Query, TimeWindow
from millstream.model.duration import HOUR, MINUTE, SECOND

ReadQuery = Callable[..., Query]
Holds = Callable[[np.ndarray], np.ndarray]
NAMES = "abcde"
STREAM = "CREATE STREAM S (Id INT, Ts TIMESTAMP) WITH (time = 'Ts');"
REACH = 3


def read(conditions: list[str], count: int, window: str = "") -> tuple[Query | None, list[ScriptError]]:
    names = NAMES[:count]
    errors = Errors()
    sources = ", ".join(f"S {name}" for name in names)
    where = " AND ".join([*(f"a.Id = {name}.Id" for name in names[1:]), *conditions])
    script = sql.read(f"{STREAM} CREATE QUERY q AS SELECT a.Id FROM {sources} WHERE {where} {window}", errors)
    return (script.queries[0] if script.queries else None), list(errors)


def us(number: int) -> str:
    return f"INTERVAL '{number}' MICROSECONDS"


@st.composite
def predicates(draw: st.DrawFn, count: int) -> tuple[str, Holds]:
    """A bound on two times in some way of writing, and what it says about rows of times."""
    i, j = draw(st.permutations(range(count)))[:2]
    a, b = f"{NAMES[i]}.Ts", f"{NAMES[j]}.Ts"
    n, more = draw(st.integers(-REACH, REACH)), draw(st.integers(0, REACH))
    written: list[tuple[str, Holds]] = [
        (f"{a} BETWEEN {b} + {us(n)} AND {b} + {us(n + more)}", lambda d: (d >= n) & (d <= n + more)),
        (f"abs({a} - {b}) < {us(more)}", lambda d: np.abs(d) < more),
        (f"abs({a} - {b} - {us(n)}) <= {us(more)}", lambda d: np.abs(d - n) <= more),
        (f"{a} = {b} + {us(n)}", lambda d: d == n),
        (f"{a} < {b} + {us(n)}", lambda d: d < n),
        (f"{b} >= {a} - {us(n)}", lambda d: d <= n),
        (f"{a} - {b} > {us(n)}", lambda d: d > n),
        (f"{us(n)} <= {a} - {b}", lambda d: d >= n),
        (f"-({a} - {b}) <= {us(-n)}", lambda d: d >= n),
    ]
    text, holds = draw(st.sampled_from(written))
    return text, lambda times: holds(times[:, i] - times[:, j])


@st.composite
def queries(draw: st.DrawFn) -> tuple[int, list[tuple[str, Holds]]]:
    """Bounds over two to five streams; often a chain that relates some streams only through others."""
    count = draw(st.integers(2, 5))
    found = draw(st.lists(predicates(count), min_size=1, max_size=3))
    if draw(st.booleans()):
        for i in range(1, count):
            earlier = draw(st.integers(0, i - 1))
            text = f"abs({NAMES[i]}.Ts - {NAMES[earlier]}.Ts) <= {us(REACH)}"
            found.append((text, lambda t, i=i, earlier=earlier: np.abs(t[:, i] - t[:, earlier]) <= REACH))
    return count, draw(st.permutations(found))


def grid(count: int, reach: int) -> np.ndarray:
    """All times up to a distance from the first, which is 0."""
    others = np.indices((2 * reach + 1,) * (count - 1), dtype=np.int16).reshape(count - 1, -1) - reach
    return np.vstack([np.zeros_like(others[:1]), others]).T


# Three bounds that force times apart by at most four, or a chain of four bounds by at most three, reach no further.
GRIDS = {count: grid(count, 14 if count < 5 else 12) for count in range(2, 6)}


@given(queries())
def test_the_window_is_the_tightest_interval_of_every_pair(case: tuple[int, list[tuple[str, Holds]]]) -> None:
    """Found by trying all times; where they reach the end of the grid, the interval may be wider."""
    count, found = case
    query, errors = read([text for text, _ in found], count)
    times = GRIDS[count]
    edge = int(times.max())
    for _, holds in found:
        times = times[holds(times)]
    if query is None:
        contradicts = "lower bound must not lie above" in errors[0].valid
        assert contradicts == (len(times) == 0)
        return
    assert isinstance(query.window, TimeWindow)
    assert [(bound.left, bound.right) for bound in query.window.bounds] == list(combinations(range(count), 2))
    for bound in query.window.bounds:
        differences = times[:, bound.right] - times[:, bound.left]
        assert bound.interval.lo <= differences.min()
        assert differences.max() < bound.interval.hi
        if np.abs(times).max() < edge:
            assert bound.interval == Interval.between(differences.min(), differences.max())


@given(queries())
def test_what_an_error_tells_to_add_is_enough(case: tuple[int, list[tuple[str, Holds]]]) -> None:
    count, found = case
    texts = [text for text, _ in found]
    query, errors = read(texts, count)
    added = [match[1] for error in errors if (match := re.match(r"Add for example AND (.*)\.$", error.todo))]
    assert len(added) == len(errors) or "must not lie above" in errors[0].valid
    if query is None and added:
        assert read([*texts, *added], count)[1] == []


@given(st.integers(2, 5), st.data())
def test_windows_are_bounds_that_need_no_closing(count: int, data: st.DataObject) -> None:
    """Of any two rows, the window of the earlier one's stream counts."""
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    window = ", ".join(f"{name} {size} MICROSECONDS" for name, size in zip(NAMES, sizes, strict=False))
    bounds = [f"{NAMES[j]}.Ts - {NAMES[i]}.Ts < {us(sizes[i])}" for i, j in permutations(range(count), 2)]
    query, same = read([], count, f"WINDOW {window}")[0], read(bounds, count)[0]
    assert query is not None
    assert same is not None
    assert query.window == same.window
    one = read([], count, f"WINDOW {sizes[0]} MICROSECONDS")[0]
    assert one is not None
    assert one.window == TimeWindow(
        tuple(Bound(i, j, Interval.window(sizes[0])) for i, j in combinations(range(count), 2))
    )


JOIN = "SELECT T.Id FROM T, H, P WHERE T.Id = H.Id AND H.Id = P.Id AND "


@pytest.mark.parametrize(
    ("conditions", "pairs"),
    [
        ("H.Ts = T.Ts AND P.Ts = H.Ts", [(0, 0), (0, 0), (0, 0)]),
        ("H.Ts = T.Ts + INTERVAL '1' SECOND AND P.Ts = H.Ts", [(SECOND, SECOND), (SECOND, SECOND), (0, 0)]),
        (
            "H.Ts > T.Ts AND H.Ts < T.Ts + INTERVAL '1' MINUTE AND P.Ts > H.Ts AND P.Ts < H.Ts + INTERVAL '1' MINUTE",
            [(1, MINUTE - 1), (2, 2 * MINUTE - 2), (1, MINUTE - 1)],
        ),
        (
            "abs(P.Ts - T.Ts) <= INTERVAL '1' HOUR AND H.Ts BETWEEN P.Ts - INTERVAL '1' MINUTE AND P.Ts",
            [(-HOUR - MINUTE, HOUR), (-HOUR, HOUR), (0, MINUTE)],
        ),
        (
            "T.Ts < H.Ts AND H.Ts < P.Ts AND P.Ts <= T.Ts + INTERVAL '1' SECOND",
            [(1, SECOND - 1), (2, SECOND), (1, SECOND - 1)],
        ),
    ],
)
def test_streams_related_through_others(query: ReadQuery, conditions: str, pairs: list[tuple[int, int]]) -> None:
    found = query(JOIN + conditions)
    assert isinstance(found.window, TimeWindow)
    assert [bound.interval for bound in found.window.bounds] == [Interval.between(*pair) for pair in pairs]
    assert found.residual == ()


MANUAL = (Path(__file__).parents[2] / "docs/language.md").read_text(encoding="utf-8")
TABLE = MANUAL.partition("With three and more streams")[2].partition("\n\nTwo")[0]
WRITTEN = re.findall(r"^\| `(.*?)` \|", TABLE, re.MULTILINE)


def test_the_manual_shows_windows_of_three_streams_as_they_are_read(query: ReadQuery) -> None:
    intervals = []
    for written in WRITTEN:
        found = query(JOIN + ("TRUE " if written.startswith("WINDOW") else "") + written)
        assert isinstance(found.window, TimeWindow)
        intervals.append([bound.interval for bound in found.window.bounds])
    assert intervals == [
        [Interval.window(MINUTE)] * 3,
        [
            Interval.windows(5 * MINUTE, MINUTE),
            Interval.windows(5 * MINUTE, 2 * MINUTE),
            Interval.windows(MINUTE, 2 * MINUTE),
        ],
        [Interval.between(0, MINUTE), Interval.between(0, 3 * MINUTE), Interval.between(0, 2 * MINUTE)],
        [Interval.between(0, 5 * MINUTE)] * 3,
    ]


@pytest.mark.parametrize(
    "condition",
    [
        "P.Ts - T.Ts < T.Ts - H.Ts",
        "T.Ts + (P.Ts - H.Ts) > T.Ts + (H.Ts - T.Ts)",
        "abs(H.Ts - T.Ts) < P.Ts - T.Ts",
        "H.Ts + NULL > T.Ts",
    ],
)
def test_what_is_no_bound_on_two_times_is_residual(query: ReadQuery, condition: str) -> None:
    found = query(f"{JOIN} {condition} WINDOW 1 MINUTE")
    assert len(found.residual) == 1


def test_times_that_cancel_out_leave_a_bound_on_two(query: ReadQuery) -> None:
    found = query(f"{JOIN} H.Ts = T.Ts AND T.Ts + (P.Ts - H.Ts) BETWEEN T.Ts AND T.Ts + INTERVAL '1' SECOND")
    assert isinstance(found.window, TimeWindow)
    assert found.window.bounds[2] == Bound(1, 2, Interval.between(0, SECOND))
