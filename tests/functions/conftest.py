"""Rows of edge values, and what the engine and Spark make of an expression on them: its type, its values, its failures.

Spark evaluates all cells in a few queries: a cell that raises is caught by `try_to_binary`, which gives null instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from millstream import sql
from millstream.engine.arrow import arrow_schema, arrow_type
from millstream.engine.expressions import as_array, compile_expr
from millstream.errors import Errors
from millstream.model import Expr
from millstream.pipeline.session import make_session, session_for

RAISES = "raises"
SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))
Cells = tuple[pa.DataType, list[Any]]
STREAM = """
CREATE STREAM S (k INT, i INT, j INT, l BIGINT, t TINYINT, f FLOAT, x DOUBLE, y DOUBLE, d DECIMAL(10, 2),
  c DECIMAL(4, 2), w DECIMAL(38, 18), h DECIMAL(38, 0), s STRING, v STRING, z STRING, b BOOLEAN, g BOOLEAN, day DATE,
  at TIMESTAMP, n TIMESTAMP_NTZ, raw BINARY, list ARRAY<INT>, Ts TIMESTAMP) WITH (time = 'Ts');
"""
NAN, INF = math.nan, math.inf
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, -1, 7, -3, 2**31 - 1, -(2**31), 100, None],
    "j": [3, 0, -1, 2, None, 1, -(2**31), 65_536],
    "l": [0, 1, -1, 2**63 - 1, -(2**63), 5_000_000_000, None, -17],
    "t": [0, 1, -1, 127, -128, 12, None],
    "f": [0.0, 1.5, -0.5, NAN, INF, 16_777_216.0, 1e-10, -2.5, None, 3.4e38],
    "x": [
        0.0,
        -0.0,
        1.5,
        -2.5,
        NAN,
        INF,
        -INF,
        1e300,
        0.1,
        2.675,
        1.005,
        1e10,
        1e-4,
        123456.789,
        -7.0,
        None,
        2**53 + 2.0,
        -(2.0**63),
    ],
    "y": [1.0, -0.0, NAN, 2.0, NAN, -INF, 0.5, -1e300, 3.0, None, 1.5],
    "d": ["0.00", "1.05", "-1.05", "99999999.99", "-99999999.99", None, "0.01", "12.50", "3.00", "-2.45"],
    "c": ["99.99", "0.00", "-99.99", "1.05", "0.50", None, "-0.01"],
    "w": [
        "0",
        "1.000000000000000001",
        "-12345678901234567890.123456789012345678",
        None,
        "0.5",
        "99999999999999999999.9",
    ],
    "h": ["0", "1", "9" * 38, "-" + "9" * 38, None, "12345678901234567890"],
    "s": [
        *("0", "12", "-7", "+5", " 42\n", "1.5", "1e3", "abc", "", "2147483648", "-2147483648", "9223372036854775808"),
        *("007", "1.", ".5", "-.5e-2", "NaN", "-Infinity", "inf", "1.5d", "0x1F", "true", " T ", "no", "2", None),
        *("99.995", "123456789012345678901234567890.5", "1e400", "--1", "1 2", "1e-30", "-0.0", "4" * 60),
        *("٣", "1٣.５e२"),
    ],
    "v": [
        *("abc", "ABC", " Mill ", "", "straße", "ΑΣ", "\t a \n", "a%b", "a_b", r"a\b", "a\nb", "𝄞é€x", "aaaa", None),
        *("ab", "%", "_", "Ångström"),
    ],
    "z": [
        *("2024-01-05", "2024-01-05 10:00:00", "2024-01-05T10:00:00.123456789Z", "2024-1-5", "2024", "2024-02", None),
        *("2024-01-05 10:00:00+02:30", "2024-01-05 10:00:00-0230", "2024-02-30", "2023-02-29", "2024-02-29 1:2:3.5"),
        *("2024-01-05 10", "2024-01-05 10:", "2024-01-05 24:00:00", "2024-01-05 10:61:00", "2024-01-05T", "junk", ""),
        *(
            "2024-01-05 10:00:00 UTC",
            "2024-01-05 10:00:00+19:00",
            "2024-01-05 10:00+01:00",
            " 2024-01-05 ",
            "1969-12-31",
        ),
        *("2024-01-05 junk", "2024-01-05junk", "24-01-05", "1969-12-31 23:59:59.999999", "2024-13-01", "2024-00-01"),
        *("2024-01-05 10:00:00+1", "2024-01-05 10:00:00GMT+1:30", "2024-01-05 10:00:00z", "0001-01-01", "9999-12-31"),
    ],
    "b": [True, False, None],
    "g": [False, None, True, True],
    "day": [date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31), None, date(1, 1, 1), date(9999, 12, 31)],
    "at": [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2024, 2, 29, 23, 59, 58, 123456, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=UTC),
        None,
        datetime(2024, 1, 5, tzinfo=UTC),
    ],
    "n": [datetime(2024, 1, 5), datetime(1969, 12, 31, 23, 59, 59, 100000), None],
    "raw": [b"", b"abc", b"a\x00", None, b"\xff"],
}
COUNT = 36
"""Rows; shorter lists are repeated, each with its own period, so that columns meet in many combinations."""


class Edges:
    """The rows, and how each side evaluates expressions over them. A cell that fails is `RAISES`."""

    raises = RAISES
    names = tuple(VALUES)
    stream = STREAM

    def __init__(self) -> None:
        self.rows = _table()

    def query(self, expressions: Sequence[str]) -> str:
        """Each row meets itself; names belong to the first stream."""
        outputs = ", ".join(f"{_named(expression)} AS v{n}" for n, expression in enumerate(expressions))
        return f"CREATE QUERY q AS SELECT {outputs} FROM S a, S o WHERE a.k = o.k WINDOW 1 SECOND;"

    def bound(self, expressions: Sequence[str]) -> list[Expr]:
        errors = Errors()
        script = sql.read(f"{STREAM} {self.query(expressions)}", errors)
        errors.raise_if_any()
        return [output.expr for output in script.queries[0].outputs]

    def by_engine(self, expr: Expr, count: int | None = None) -> Cells:
        """At once, and where that raises, row by row; of the first rows where so many are asked for."""
        kind, rows = arrow_type(expr.type), self.rows.slice(0, count)
        compiled = compile_expr(expr, {})

        def values(some: pa.Table) -> list[Any]:
            (batch,) = some.combine_chunks().to_batches()
            return as_array(compiled(lambda column: batch.column(column.name)), batch.num_rows, kind).to_pylist()

        try:
            return kind, values(rows)
        except (ArithmeticError, ValueError):
            return kind, [_tried(values, rows.slice(n, 1)) for n in range(rows.num_rows)]

    def by_spark(
        self, spark: SparkSession, expressions: Sequence[str], *, calm: bool = False, count: int | None = None
    ) -> list[Cells]:
        """With `calm` no row raises, which is quicker."""
        # Arrow's timestamps without a zone are NTZ only if one says so.
        frame = spark.createDataFrame(self.rows.slice(0, count))
        frame = frame.selectExpr("* EXCEPT (n)", "CAST(n AS TIMESTAMP_NTZ) AS n")
        columns = [f"{one} AS v{n}" for n, one in enumerate(expressions)] if calm else []
        for n, one in enumerate(expressions if not calm else ()):
            caught = f"try_to_binary(coalesce(CAST(({one}) AS STRING), 'null'), 'utf-8') IS NULL"
            columns += [f"CASE WHEN NOT ({caught}) THEN ({one}) END AS v{n}", f"{caught} AS r{n}"]
        found = frame.selectExpr(*columns).toArrow()
        return [
            (found[f"v{n}"].type, _marked(found[f"v{n}"].to_pylist(), None if calm else found[f"r{n}"].to_pylist()))
            for n in range(len(expressions))
        ]

    def for_spark(self, expression: str) -> str:
        """Numbers with a point are DOUBLE here, and a backslash in a text is nothing special."""
        if SPARK < (4, 3) and re.fullmatch(r"(floor|ceil)\([fx]\)", expression):
            return _raising_beyond_bigint(expression, expression[-2])
        doubles = _pieces(expression, lambda part: re.sub(r"(?<![\w.])(\d+\.\d+|\d+e[+-]?\d+)(?![\w.])", r"\1D", part))
        return re.sub(r"'(?:[^']|'')*\\(?:[^']|'')*'", lambda text: f"r{text[0]}", doubles)


@pytest.fixture(scope="session")
def edges() -> Edges:
    return Edges()


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """As the product runs it, but without the shortcuts that would evaluate a cell elsewhere than where it stands."""
    session = session_for(make_session("functions"))
    session.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


def _table() -> pa.Table:
    errors = Errors()
    script = sql.read(f"{STREAM} CREATE QUERY q AS SELECT a.k FROM S a, S o WHERE a.k = o.k WINDOW 1 SECOND;", errors)
    errors.raise_if_any()
    schema = arrow_schema(script.streams[0])
    columns: dict[str, list[Any]] = {name: [some[n % len(some)] for n in range(COUNT)] for name, some in VALUES.items()}
    for name in ("d", "c", "w", "h"):
        columns[name] = [value if value is None else Decimal(value) for value in columns[name]]
    columns |= {"list": [[1]] * COUNT, "k": list(range(COUNT)), "Ts": [datetime(2024, 1, 1, tzinfo=UTC)] * COUNT}
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _raising_beyond_bigint(expression: str, number: str) -> str:
    """Before 4.3 Spark's `floor` and `ceil` give the nearest BIGINT: the table of differences has it."""
    beyond = f"NOT isnan({number}) AND ({number} >= 9223372036854775808D OR {number} < -9223372036854775808D)"
    return f"CASE WHEN {beyond} THEN CAST(raise_error('no BIGINT') AS BIGINT) ELSE {expression} END"


def _pieces(expression: str, change: Callable[[str], str]) -> str:
    """Changes what stands outside of quotes."""
    parts = re.split(r"('(?:[^']|'')*')", expression)
    return "".join(part if n % 2 else change(part) for n, part in enumerate(parts))


def _named(expression: str) -> str:
    names = "|".join((*VALUES, "list"))
    return _pieces(expression, lambda part: re.sub(rf"(?<![\w.])({names})(?![\w.(])", r"a.\1", part))


def _marked(values: list[Any], raised: list[bool] | None) -> list[Any]:
    return values if raised is None else [RAISES if bad else one for one, bad in zip(values, raised, strict=True)]


def _tried(values: Callable[[pa.Table], list[Any]], row: pa.Table) -> Any:
    try:
        return values(row)[0]
    except (ArithmeticError, ValueError):
        return RAISES
