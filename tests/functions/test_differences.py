"""Where an expression differs from Spark on purpose: the manual's table is what is tested here, and no other."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from millstream.errors import ScriptErrors

RAISES = "raises"
REFUSED = "refused"
ROOT = Path(__file__).parents[2]
OLD_SPARK = tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3)
# The line of the manual, an expression, and what it is here and in Spark; a type stands where the types differ.
DIFFERENCES: list[tuple[str, str, Any, Any]] = [
    ("`1.5` is a `DOUBLE`", "1.5", "double", "decimal128(2, 1)"),
    ("`/` and `%` by zero give null", "1 / 0", None, RAISES),
    ("`/` and `%` by zero give null", "1 % 0", None, RAISES),
    ("`/` and `%` by zero give null", "CAST('1.5' AS DOUBLE) % 0", None, RAISES),
    ("`/` gives a `DOUBLE`, of `DECIMAL`s too", "CAST(1 AS DECIMAL(4, 2)) / 8", "double", "decimal128(8, 6)"),
    ("`floor` and `ceil` of a", "floor(CAST('1e300' AS DOUBLE))", RAISES, 2**63 - 1 if OLD_SPARK else RAISES),
    ("`floor` and `ceil` of a", "ceil(CAST('-Infinity' AS FLOAT))", RAISES, -(2**63) if OLD_SPARK else RAISES),
    ("two `DECIMAL`s that no", "CAST(1 AS DECIMAL(38, 30)) = 3000000000 + 1", REFUSED, False),
    ("two `DECIMAL`s that no", "c IN (CAST(1 AS DECIMAL(38, 30)), l)", REFUSED, False),
    ("two `DECIMAL`s that no", "CASE WHEN TRUE THEN CAST(1 AS DECIMAL(38, 30)) ELSE l END", REFUSED, Decimal(1)),
    ("two `DECIMAL`s that no", "if(TRUE, CAST(1 AS DECIMAL(38, 30)), l)", REFUSED, Decimal(1)),
    ("two `DECIMAL`s that no", "coalesce(CAST(1 AS DECIMAL(38, 30)), l)", REFUSED, Decimal(1)),
    ("two `DECIMAL`s that no", "greatest(CAST(1 AS DECIMAL(38, 30)), l)", REFUSED, Decimal(1)),
    ("two `DECIMAL`s that no", "least(CAST(1 AS DECIMAL(38, 30)), l)", REFUSED, Decimal(0)),
    ("two `DECIMAL`s that no", "nullif(CAST(1 AS DECIMAL(38, 30)), l)", REFUSED, Decimal(1)),
    (
        "a whole constant among the values of an `IN`",
        "CAST('1.000000000000000000000000000001' AS DECIMAL(38, 30)) IN (1, 2)",
        False,
        True,
    ),
    ("`%` of `DECIMAL`s", "CAST(7 AS DECIMAL(38, 10)) % CAST(4 AS DECIMAL(38, 10))", REFUSED, Decimal(3)),
    ("`%` of `DECIMAL`s", "CAST(7 AS DECIMAL(38, 18)) % CAST(4 AS BIGINT)", REFUSED, Decimal(3)),
    (
        "`-` and `abs` of a `DECIMAL`",
        "-CAST('0.1234567890123456789012345678901234567' AS DECIMAL(38, 37))",
        Decimal("-0.1234567890123456789012345678901234567"),
        Decimal("-0.1234567890123456789012345678901235000"),
    ),
    ("text and numbers do not mix", "'1' = 1", REFUSED, True),
    ("text and numbers do not mix", "concat(1, 'a')", REFUSED, "1a"),
    ("text and numbers do not mix", "length(5)", REFUSED, 1),
    ("`TIMESTAMP` and `TIMESTAMP_NTZ` meet", "at = n", REFUSED, False),
    ("`ARRAY`, `MAP` and `STRUCT` are not", "list = list", REFUSED, True),
    ("patterns and positions are constants", "startswith(v, s)", REFUSED, False),
    ("patterns and positions are constants", "substring(v, i)", REFUSED, "abc"),
    ("patterns and positions are constants", "v LIKE s", REFUSED, False),
    (
        "a time as text has an offset",
        "CAST(concat('2024-01-05 10:00:00', ' Europe/Berlin') AS TIMESTAMP)",
        RAISES,
        datetime(2024, 1, 5, 9, tzinfo=UTC),
    ),
    ("a time of day as text is no `TIMESTAMP`", "TRY_CAST(concat('12', ':30') AS TIMESTAMP) IS NULL", True, False),
    ("a time of day as text is no `TIMESTAMP`", "TRY_CAST('T12:00:00' AS TIMESTAMP) IS NULL", True, False),
    ("a constant has a year", "CAST('+10000-01-01' AS DATE) IS NULL", REFUSED, False),
    ("a `DATE` is moved by days", "CAST(day + INTERVAL '24' HOUR AS STRING)", REFUSED, "1970-01-02 00:00:00"),
    ("a `DATE` is moved by days", "day - day IS NULL", REFUSED, False),
    ("a number that no `TIMESTAMP` can hold", "CAST(9223372036854775807 AS TIMESTAMP) IS NULL", RAISES, False),
    ("a number as text is decimal", "CAST(concat('0x1', 'p3') AS DOUBLE)", RAISES, 8.0),
    ("a column that is always NULL", "NULL", REFUSED, "null"),
    ("a condition that is compared", "1 < 2 = TRUE", REFUSED, True),
    ("`extract(second FROM t)` gives", "extract(second FROM at)", "int32", "decimal128(8, 6)"),
]
UNSEEN = ("`BINARY` that is no UTF-8", "a `DOUBLE` as text has the fewest digits")
"""What no Arrow table can show, and what depends on the Java that runs Spark."""


def test_every_difference_is_documented_and_no_other() -> None:
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"^\| (.*?) \| .* \|$", text.split("These differences from")[1].split("An expression nests")[0], re.M
    )
    told = [line for line in lines if line not in ("here",) and not line.startswith("---")]
    known = {start for start, *_ in DIFFERENCES} | set(UNSEEN)
    assert [line for line in told if not any(line.startswith(start) for start in known)] == []
    assert [start for start in known if not any(line.startswith(start) for line in told)] == []


def test_what_differs_from_spark_on_purpose(edges: Any, spark: SparkSession) -> None:
    assert edges.raises == RAISES
    for _, expression, ours, theirs in DIFFERENCES:
        (found,) = edges.by_spark(spark, [expression], count=1)
        assert shown(found, theirs) == theirs, expression
        try:
            own = edges.by_engine(edges.bound([expression])[0], count=1)
        except ScriptErrors:
            assert ours == REFUSED, expression
            continue
        assert shown(own, ours) == ours, expression


def shown(found: tuple[pa.DataType, list[Any]], wanted: Any) -> Any:
    """The type, where a type is wanted."""
    kind, values = found
    return str(kind) if wanted == str(kind) or (isinstance(wanted, str) and wanted.startswith("decimal")) else values[0]
