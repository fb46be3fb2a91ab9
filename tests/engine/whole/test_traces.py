"""shared-join, Figures 2, 4 and 6: the schedules and the ordered release, step by step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from millstream.model.settings import POLICY_NAMES

START = datetime(2024, 1, 1, tzinfo=UTC)


class Trace:
    """Tuples a1, a3, .. a9 and b0, b2, .. b10 are there; a11 arrives, then b12. One unit of work is one step.

    A tuple's symbol is its key. With each arrival a tuple that no query selects comes on the other stream, because
    event time passes only when both streams have moved on.
    """

    def __init__(self, policy: str, windows: tuple[int, int, int], symbols: Callable[[str, int], str]) -> None:
        real = "A.Name <> '-' AND B.Name <> '-'"
        select = f"SELECT A.Name AS a, B.Name AS b FROM A, B WHERE A.Symbol = B.Symbol AND {real}"
        streams = [
            f"CREATE STREAM {name} (Symbol STRING, Name STRING, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB"
        ]
        queries = [f"CREATE QUERY Q{n} AS {select} WINDOW {w} SECONDS;" for n, w in enumerate(windows, start=1)]
        settings = {"slicing": "memory", "policy": policy, "order": "strict"}
        plan = compile_script("\n".join([*streams, *queries]), settings=settings)
        self._schema = arrow_schema(plan.script.streams[0])
        self._symbols = symbols
        self._released: list[str] = []
        self.lines: list[str] = []
        self._engine = Engine(plan, self._sink)
        self.arrive("A", *range(1, 10, 2), quiet=True)
        self.arrive("B", *range(0, 11, 2), quiet=True)
        self._engine.close()
        self.lines.clear()

    def arrive(self, stream: str, *times: int, quiet: bool = False) -> None:
        rows = [self._row(stream, t, self._symbols(stream, t)) for t in times]
        other = "B" if stream == "A" else "A"
        batch = {stream: self._table(rows)}
        if not quiet:
            batch[other] = self._table([self._row(other, t, None) for t in times])
            self.lines.append(f"{stream.lower()}{times[0]} arrives")
        self._engine.feed(batch, Budget(units=0))
        self._released.clear()

    def step(self) -> None:
        """Units until one of them gives something, and what each query is then given."""
        while self._engine.deferred and not self._released:
            self._engine.work(Budget(units=1))
        if self._released:
            self.lines.append("  ".join(sorted(self._released)))
            self._released.clear()

    def finish(self) -> None:
        while self._engine.deferred:
            self.step()

    def _sink(self, query: str, rows: pa.RecordBatch) -> None:
        self._released.append(f"{query}: " + " ".join(f"({r['a']},{r['b']})" for r in rows.to_pylist()))

    def _row(self, stream: str, time: int, symbol: str | None) -> dict[str, Any]:
        name = f"{stream.lower()}{time}" if symbol else "-"
        return {"Symbol": symbol or "", "Name": name, "Ts": START + timedelta(seconds=time)}

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self._schema)


def crosses_and_circles(stream: str, time: int) -> str:
    """Figures 2 and 4: a11 has the symbol of b8, b4 and b0; b12 that of a9, a5 and a1."""
    crosses = {("A", 11), ("B", 8), ("B", 4), ("B", 0)}
    circles = {("B", 12), ("A", 9), ("A", 5), ("A", 1)}
    return "cross" if (stream, time) in crosses else "circle" if (stream, time) in circles else f"{stream}{time}"


def test_figure_2_lwo() -> None:
    """All of a11 before any of b12, and nothing is held."""
    trace = Trace("lwo", (5, 9, 13), crosses_and_circles)
    trace.arrive("A", 11)
    trace.step()
    trace.arrive("B", 12)
    trace.finish()
    assert trace.lines == [
        "a11 arrives",
        "Q1: (a11,b8)  Q2: (a11,b8)  Q3: (a11,b8)",
        "b12 arrives",
        "Q2: (a11,b4)  Q3: (a11,b4)",
        "Q3: (a11,b0)",
        "Q1: (a9,b12)  Q2: (a9,b12)  Q3: (a9,b12)",
        "Q2: (a5,b12)  Q3: (a5,b12)",
        "Q3: (a1,b12)",
    ]


def test_figure_4_swf_holds_what_would_come_out_of_order() -> None:
    trace = Trace("swf", (5, 9, 13), crosses_and_circles)
    trace.arrive("A", 11)
    trace.step()
    trace.arrive("B", 12)
    trace.finish()
    assert trace.lines == [
        "a11 arrives",
        "Q1: (a11,b8)  Q2: (a11,b8)  Q3: (a11,b8)",
        "b12 arrives",
        "Q1: (a9,b12)",
        "Q2: (a11,b4)  Q3: (a11,b4)",
        "Q2: (a9,b12) (a5,b12)",
        "Q3: (a11,b0)",
        "Q3: (a9,b12) (a5,b12) (a1,b12)",
    ]


def test_figure_6_greedy_takes_the_smallest_partial_window() -> None:
    """All tuples match. w2 - w1 is smaller than w1, w3 - w2 is the largest of the three.

    b12's rows go to a query as soon as a11 has scanned its window, before b12 has: Greedy's order is fixed.
    """
    trace = Trace("greedy", (5, 8, 14), lambda _stream, _time: "all")
    trace.arrive("A", 11)
    trace.arrive("B", 12)
    trace.finish()
    assert trace.lines == [
        "a11 arrives",
        "b12 arrives",
        "Q1: (a11,b10) (a11,b8)  Q2: (a11,b10) (a11,b8)  Q3: (a11,b10) (a11,b8)",
        "Q2: (a11,b6) (a11,b4)  Q3: (a11,b6) (a11,b4)",
        "Q1: (a11,b12) (a9,b12)  Q2: (a11,b12) (a9,b12)",
        "Q2: (a7,b12) (a5,b12)",
        "Q3: (a11,b2) (a11,b0) (a11,b12) (a9,b12) (a7,b12) (a5,b12)",
        "Q3: (a3,b12) (a1,b12)",
    ]


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_each_query_gets_the_same_sequence_under_every_policy(policy: str) -> None:
    trace = Trace(policy, (5, 8, 14), lambda _stream, _time: "all")
    trace.arrive("A", 11)
    trace.arrive("B", 12)
    trace.finish()
    sequences = {
        query: [
            pair
            for line in trace.lines
            for part in line.split("  ")
            if part.startswith(query)
            for pair in part.split()[1:]
        ]
        for query in ("Q1", "Q2", "Q3")
    }
    first = ["(a11,b10)", "(a11,b8)", "(a11,b6)", "(a11,b4)", "(a11,b2)", "(a11,b0)"]
    second = ["(a11,b12)", "(a9,b12)", "(a7,b12)", "(a5,b12)", "(a3,b12)", "(a1,b12)"]
    assert sequences == {"Q1": first[:2] + second[:2], "Q2": first[:4] + second[:4], "Q3": first + second}
