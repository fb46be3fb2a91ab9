"""state-slice, Table 2: the chain of two slices, step by step.

The paper purges a tuple when it is *more* than a window old (Figures 6 and 9), so its slices are 0 to 2 and 2 to 4
seconds with the upper end included. A slice here is a view on segments and not a queue between operators: what the
paper moves from J1 to J2 is what the view of J1 no longer shows. The table lets a3 leave J1 at second 9, when no b
arrives that would purge it; here it stays until one does. All outputs are the table's.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from millstream.model.interval import Interval

START = datetime(2024, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
J1, J2 = Interval.between(0, 2 * SECOND), Interval(2 * SECOND + 1, 4 * SECOND + 1)


class Chain:
    def __init__(self) -> None:
        streams = "".join(f"CREATE STREAM {n} (k INT, Name STRING, Ts TIMESTAMP) WITH (time = 'Ts');" for n in "AB")
        select = "SELECT A.Name AS a, B.Name AS b FROM A, B WHERE A.k = B.k AND B.Ts BETWEEN A.Ts AND A.Ts"
        queries = "".join(f"CREATE QUERY w{w} AS {select} + INTERVAL '{w}' SECOND;" for w in (2, 4))
        plan = compile_script(streams + queries, settings={"slicing": "memory", "policy": "swf"})
        assert [piece.interval for piece in plan.chains[0].slices] == [J1, J2]
        self._schema = arrow_schema(plan.script.streams[0])
        self._given: set[str] = set()
        self._engine = Engine(plan, self._take)
        self._last_b = 0

    def _take(self, query: str, rows: pa.RecordBatch) -> None:
        if query == "w4":
            self._given |= {f"({row['a']},{row['b']})" for row in rows.to_pylist()}

    def arrive(self, stream: str, names: dict[str, int]) -> None:
        rows = [{"k": 1, "Name": name, "Ts": START + timedelta(seconds=second)} for name, second in names.items()]
        self._engine.feed({stream: pa.Table.from_pylist(rows, schema=self._schema)}, Budget(units=0))
        if stream == "B":
            self._last_b = max(names.values())

    def run(self) -> set[str]:
        """One operator runs once: the next unit and what it gives."""
        self._given = set()
        self._engine.work(Budget(units=1))
        return self._given

    def view(self, piece: Interval) -> list[str]:
        """The a tuples in a slice as the last b sees them; those not older than it count as of age 0."""
        left, _ = self._engine.pools()
        rows = [
            (time, name)
            for segment in left.segments
            for time, name in zip(segment.times.tolist(), segment.rows.column("Name").to_pylist(), strict=True)
        ]
        now = int(START.timestamp()) * SECOND + self._last_b * SECOND
        return [name for time, name in sorted(rows, reverse=True) if piece.lo <= max(now - time, 0) < piece.hi]


def test_table_2() -> None:
    chain = Chain()
    chain.arrive("A", {"a1": 1, "a2": 2, "a3": 3})
    chain.arrive("B", {"b1": 4})
    assert chain.run() == {"(a2,b1)", "(a3,b1)"}
    assert (chain.view(J1), chain.view(J2)) == (["a3", "a2"], ["a1"])
    chain.arrive("B", {"b2": 5})
    assert chain.run() == {"(a3,b2)"}
    assert (chain.view(J1), chain.view(J2)) == (["a3"], ["a2", "a1"])
    assert chain.run() == {"(a1,b1)"}
    chain.arrive("A", {"a4": 8})
    assert chain.view(J1) == ["a4", "a3"]
    assert chain.run() == {"(a1,b2)", "(a2,b2)"}
    assert chain.run() == set()
