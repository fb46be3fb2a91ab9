"""Random histories on Spark: restarts with other scripts, orders and budgets, keys that are expressions, and a function
that fails now and then. What every query gives under each of its definitions is compared with the naive oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millstream.compile import compile_script
from millstream.model.functions import function
from millstream.model.query import Query
from millstream.testing import naive
from two_streams import START, Rows

COLUMNS = "k INT, v INT, m DECIMAL(9, 2), s STRING, Ts TIMESTAMP"
STREAMS = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts', delay = '3 seconds');\n" for name in "AB")
NARROW = "SELECT moody(A.v) AS a, B.v AS b, A.Ts AS t, B.Ts AS u FROM A, B WHERE"
OTHER = "SELECT A.s, A.m * B.m AS p, A.v + B.v AS w, B.Ts AS u FROM A, B WHERE"
DEFINITIONS = {
    "stays": [f"{NARROW} A.k = B.k WINDOW 6 SECONDS"],
    "changes": [
        f"{NARROW} A.k = B.k WINDOW 4 SECONDS",
        f"{OTHER} A.k = B.k AND A.v > 0 WINDOW 9 SECONDS",
        f"{NARROW} A.k + 1 = B.k WINDOW 5 SECONDS",
    ],
    "computed": [f"{OTHER} A.k + 1 = B.k WINDOW 7 SECONDS", f"{NARROW} B.k = A.k + 1 AND A.v < B.v WINDOW 2 SECONDS"],
    "text": [f"{OTHER} A.s = B.s AND A.m = B.m WINDOW 8 SECONDS"],
}


def moody_function(mark: Path) -> Any:
    """Raises now and then, and never twice in a row, so that nobody is found who fails again.

    It raises ever more seldom, so that no batch fails each time it is tried, however many units call it.
    """

    @function("INT", "INT")
    def moody(value: np.ndarray) -> np.ndarray:
        # Workers count together: to append is one step, and says where it ended.
        with mark.open("ab", buffering=0) as count:
            count.write(b"x")
            calls = count.tell()
        if calls in (3, 40, 120, 360, 1080, 3240):
            raise ValueError("not today")
        return value

    return moody


class Draw:
    """Chance that comes out the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def share(self) -> float:
        return float(self._rng.random())

    def whole(self, first: int, stop: int) -> int:
        return int(self._rng.integers(first, stop))

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.whole(0, len(options))]


def batch(draw: Draw, number: int) -> dict[str, Rows]:
    found: dict[str, Rows] = {"A": [], "B": []}
    for name in found:
        seconds = sorted(draw.whole(4 * number, 4 * number + 6) for _ in range(draw.whole(4, 16)))
        for second in seconds:
            found[name].append(
                {
                    "k": draw.one_of([1, 2, 3, None]),
                    "v": draw.whole(-1, 3),
                    "m": draw.one_of([Decimal("1.05"), Decimal("2.50"), None]),
                    "s": draw.one_of(["", "x" * 50_000, "y", None]),
                    "Ts": START + timedelta(seconds=second),
                }
            )
    return found


def bag(rows: Rows) -> Counter[str]:
    return Counter(repr([str(value) for value in row.values()]) for row in rows)


def joined(query: Query, batches: list[dict[str, Rows]]) -> Counter[str]:
    everything = {name: [row for batch in batches for row in batch[name]] for name in "AB"}
    return bag(naive(query, everything))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_history_of_restarts(mill: Callable[..., Any], tmp_path: Path, seed: int) -> None:
    draw = Draw(seed)
    functions = {"moody": moody_function(tmp_path / "mark")}
    batches: list[dict[str, Rows]] = []
    running: dict[str, int] = {"stays": 0, "changes": 0}
    began: dict[str, tuple[int, int]] = {}
    said: list[str] = []
    for number in range(5):
        chosen = [name for name in sorted(DEFINITIONS) if draw.share() < 0.7]
        if number:
            running = {name: draw.whole(0, len(DEFINITIONS[name])) for name in chosen} | {"stays": 0}
        began = {
            name: began[name] if name in began and began[name][0] == definition else (definition, number)
            for name, definition in running.items()
        }
        queries = "".join(f"CREATE QUERY {name} AS {DEFINITIONS[name][n]};\n" for name, n in running.items())
        settings = {
            "order": draw.one_of(["eager", "strict"]),
            "budget": draw.one_of(["0 s", "1 microsecond"]),
            "slicing": draw.one_of(["cpu", "memory"]),
            "heartbeat": "50 milliseconds",
            "slots": "2",
        }
        batches.append(batch(draw, number))
        found = mill(STREAMS + queries, functions=functions, settings=settings)
        found.put(batches[-1])
        if number == 4 or draw.share() < 0.3:
            found.pipeline.drain()
        else:
            found.pipeline.start()
            found.await_rows(sum(map(len, batches[-1].values())))
            found.pipeline.stop()
        said += found.said
    assert any("ValueError: not today" in line for line in said), "the function has failed"
    assert not any("is stopped" in line for line in said), said
    for query in compile_script((STREAMS + queries).replace("moody(A.v)", "A.v")).script.queries:
        first = began[query.name][1]
        rows = bag(found.results(query.name))
        until, before, inside = (joined(query, some) for some in (batches, batches[:first], batches[first:]))
        assert not rows - (until - before), "a row that no tuple since its addition makes, or one too many"
        assert not inside - rows, "a row between tuples that came since its addition is missing"
        if first == 0:
            assert rows == until
            assert rows, "it has found something"
