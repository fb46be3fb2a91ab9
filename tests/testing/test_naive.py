"""The naive oracle and the engine agree on numbers, down to what overflows: two ways to write the same arithmetic."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import sql
from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema, arrow_type
from millstream.engine.expressions import as_array, compile_expr
from millstream.errors import Errors
from millstream.testing import naive, run
from millstream.testing.naive import value

STREAM = """
CREATE STREAM S (i INT, j INT, l BIGINT, t TINYINT, x DOUBLE, d DECIMAL(10, 2), c DECIMAL(4, 2), w DECIMAL(38, 18),
  b BOOLEAN, Ts TIMESTAMP) WITH (time = 'Ts');
"""
NUMBERS = ("i", "j", "l", "t", "x", "d", "c", "w", "7", "-1", "2.5")
KINDS = ("TINYINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(5, 4)")


def whole(bits: int) -> st.SearchStrategy[Any]:
    half = 2 ** (bits - 1)
    return st.one_of(st.none(), st.integers(-9, 9), st.integers(-half, half - 1), st.sampled_from([-half, half - 1]))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Any]:
    most = 10**precision - 1
    units = st.one_of(st.integers(-999, 999), st.integers(-most, most), st.sampled_from([most, -most]))
    return st.one_of(st.none(), units.map(lambda unit: Decimal(unit).scaleb(-scale)))


ROWS = st.fixed_dictionaries(
    {
        "i": whole(32),
        "j": whole(32),
        "l": whole(64),
        "t": whole(8),
        "b": st.sampled_from([None, True, False]),
        "x": st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, -0.0, 0.5, 2.675, 1e18, 1e30])),
        "d": decimals(10, 2),
        "c": decimals(4, 2),
        "w": decimals(28, 18),
    }
)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.booleans()):
        return f"a.{name}" if (name := draw(st.sampled_from(NUMBERS))).isalpha() else name
    kind = draw(st.sampled_from(["binary", "binary", "cast", "neg", "case"]))
    left = draw(expressions(depth - 1))
    if kind == "cast":
        return f"{draw(st.sampled_from(['CAST', 'TRY_CAST']))}({left} AS {draw(st.sampled_from(KINDS))})"
    if kind == "neg":
        return f"-({left})"
    right = draw(expressions(depth - 1))
    if kind == "case":
        return f"CASE WHEN a.b THEN CAST({left} AS DECIMAL(20, 6)) ELSE CAST({right} AS DECIMAL(20, 6)) END"
    return f"({left} {draw(st.sampled_from('+-*%'))} {right})"


@st.composite
def outputs(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return draw(expressions())
    values = st.sampled_from(["a.i", "a.l", "a.x", "a.d", "a.c", "2", "-0.5", "9223372036854775806"])
    left, right = draw(values), draw(values)
    if draw(st.booleans()):
        options = [right, *draw(st.lists(values, max_size=6))]
        return f"{left} {draw(st.sampled_from(['IN', 'NOT IN']))} ({', '.join(options)})"
    return f"{left} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {right}"


@given(expression=outputs(), rows=st.lists(ROWS, min_size=1, max_size=4))
def test_the_oracle_and_the_engine_agree(expression: str, rows: list[dict[str, Any]]) -> None:
    errors = Errors()
    query = f"CREATE QUERY q AS SELECT {expression} AS v FROM S a, S o WHERE a.i = o.i WINDOW 1 SECOND;"
    script = sql.read(f"{STREAM} {query}", errors)
    if list(errors):
        assert "%" in expression  # of more digits than a remainder takes
        return
    expr = script.queries[0].outputs[0].expr
    schema = arrow_schema(script.streams[0])
    compiled, kind = compile_expr(expr, {}), arrow_type(expr.type)
    for row in rows:
        batch = pa.RecordBatch.from_pylist([{**row, "Ts": None}], schema=schema)
        try:
            wanted = value(expr, [row])
        except OverflowError:
            with pytest.raises((pa.ArrowInvalid, ArithmeticError, ValueError)):
                compiled(lambda column, batch=batch: batch.column(column.name))
            continue
        found = as_array(compiled(lambda column, batch=batch: batch.column(column.name)), 1, kind)[0].as_py()
        assert found == wanted or (found != found and wanted != wanted), (found, wanted)
        assert type(found) is type(wanted)


@pytest.mark.parametrize("options", ["9223372036854775806, 0.5", "a.m, 0.5", "a.w, a.x", "2, 3, 4, 5, a.m, 0.5"])
def test_an_in_with_a_double_seeks_doubles(options: str) -> None:
    """2^63 - 1 and 2^63 - 2 are the same DOUBLE, so the one is in a list of the other and a DOUBLE."""
    stream = "CREATE STREAM S (l BIGINT, m BIGINT, w DECIMAL(38, 18), x DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');"
    select = f"SELECT a.l IN ({options}) AS v, a.l NOT IN ({options}) AS w FROM S a, S o WHERE a.l = o.l"
    script = f"{stream} CREATE QUERY q AS {select} WINDOW 1 SECOND;"
    row = {"l": 2**63 - 1, "m": 2**63 - 2, "w": Decimal(2**63 - 2), "x": 0.5, "Ts": datetime(2024, 1, 1, tzinfo=UTC)}
    wanted = [{"v": True, "w": False}]
    assert run(script, {"S": [row]})["q"].to_pylist() == wanted
    assert naive(compile_script(script).script.queries[0], {"S": [row]}) == wanted


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("DECIMAL(10, 2)", "INT"),
        ("DECIMAL(10, 2)", "BIGINT"),
        ("DECIMAL(10, 2)", "DECIMAL(20, 8)"),
        ("DECIMAL(10, 2)", "DOUBLE"),
        ("BIGINT", "DOUBLE"),
        ("TINYINT", "BIGINT"),
        ("DOUBLE", "DOUBLE"),
    ],
)
def test_keys_of_two_types_match_alike(left: str, right: str) -> None:
    kinds = {"A": left, "B": right}
    stream = "CREATE STREAM {} (k {}, n INT, Ts TIMESTAMP) WITH (time = 'Ts');"
    script = "".join(stream.format(name, kind) for name, kind in kinds.items())
    script += "CREATE QUERY q AS SELECT A.n AS a, B.n AS b FROM A, B WHERE A.k = B.k WINDOW 1 SECOND;"
    keys: dict[str, list[Any]] = {
        "DECIMAL(10, 2)": [Decimal("1.00"), Decimal("2.50"), Decimal("0.10"), Decimal("99999999.99"), None],
        "DECIMAL(20, 8)": [Decimal("1.00000000"), Decimal("2.50000001"), Decimal("2.50000000"), None],
        "DOUBLE": [1.0, 2.5, 0.1, 0.0, -0.0, math.nan, 2.0**53, None],
        "INT": [1, 2, 0, None],
        "TINYINT": [1, -1, None],
        "BIGINT": [1, -1, 2**53 + 1, 2**62, None],
    }
    rows = {
        name: [{"k": key, "n": n, "Ts": datetime(2024, 1, 1, tzinfo=UTC)} for n, key in enumerate(keys[kind])]
        for name, kind in kinds.items()
    }
    found = run(script, rows)["q"].to_pylist()
    wanted = naive(compile_script(script).script.queries[0], rows)
    assert wanted
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
