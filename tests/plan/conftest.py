"""Scripts and plans for the tests of the plan room."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest

from millstream import sql
from millstream.compile import compile_script
from millstream.errors import Errors
from millstream.model.expr import Expr, moved
from millstream.plan import Costs, Plan, Statistics

STREAMS = """
CREATE STREAM A (k INT, j STRING, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', rate = {rate_a}, keys = {keys});
CREATE STREAM B (k INT, j STRING, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', rate = {rate_b}, keys = {keys});
"""
THIRD = "CREATE STREAM C (k INT, j STRING, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', rate = {rate_a}, keys = {keys});"

Planned = Callable[..., Plan]


@pytest.fixture(scope="session")
def planned() -> Planned:
    """`planned(select, select, ...)` plans these SELECTs over streams A and B, and C where they name it, as queries q1,
    q2, ...
    """

    def make(
        *selects: str,
        rate_a: float = 80,
        rate_b: float = 80,
        keys: int = 40,
        shares: Mapping[str, float] | None = None,
        costs: Costs | None = None,
        **settings: str,
    ) -> Plan:
        third = THIRD if any(re.search(r"\bC\b", select) for select in selects) else ""
        streams = (STREAMS + third).format(rate_a=rate_a, rate_b=rate_b, keys=keys)
        queries = "".join(f"CREATE QUERY q{n} AS {select};\n" for n, select in enumerate(selects, start=1))
        statistics = Statistics({key: share for text, share in (shares or {}).items() for key in _predicates(text)})
        return compile_script(streams + queries, settings=settings, costs=costs, statistics=statistics)

    return make


def _predicates(text: str) -> list[tuple[str, Expr]]:
    """The predicate as statistics know it, for the stream it names: 'A.v > 5'."""
    errors = Errors()
    streams = STREAMS.format(rate_a=1, rate_b=1, keys=1)
    select = f"CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k AND {text} WINDOW 1 SECOND;"
    script = sql.read(streams + select, errors)
    errors.raise_if_any()
    selections = script.queries[0].selections
    return [
        (name, moved(predicate, lambda _: 0))
        for name, selection in zip("AB", selections, strict=True)
        for predicate in selection
    ]
