"""Every operator, function and cast on edge values: the engine gives what Spark gives, types and failures too."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from millstream.testing import run

Cells = tuple[pa.DataType, list[Any]]
NUMBERS = ("i", "l", "t", "f", "x", "d", "c", "w", "h")
SHORT_NUMBERS = NUMBERS[:-2]
"""Of longer ones Spark's minus and abs keep 34 digits."""
TYPES = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "DECIMAL(3, 1)",
    "DECIMAL(38, 10)",
)
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
T = TypeVar("T")


def some(combinations: Iterable[T]) -> Iterator[T]:
    """Every third of many combinations, which still meets each of their parts; all of them when asked for."""
    return islice(combinations, 0, None, 1 if os.environ.get("MILLSTREAM_CELLS") == "all" else 3)


def cut(text: str) -> list[str]:
    return [one.strip() for one in text.split(";")]


ARITHMETIC = """
1 + d + 1; d * (1 + 1); c * c * c; w * w; w * h; h * h; h + w; d - -d; - -i; NULL + 1; 2 * i; 2 - l; 2 + d; 2 * w;
-9223372036854775808 + l; -2147483648 - i; at + INTERVAL '1' DAY; nullif(day, DATE '9999-12-31') + INTERVAL '1' DAY;
CAST(day - INTERVAL '2' WEEK AS STRING); CAST(INTERVAL '3' DAY + day AS STRING); year(day - INTERVAL '-4' DAY);
CAST(day + INTERVAL '1 week 2 days' AS STRING); DATE '2024-02-28' + INTERVAL '1' DAY; day + INTERVAL '1' DAY > at;
year(day + (INTERVAL '1' DAY)); year(day + -INTERVAL '1' DAY); n - INTERVAL '90' MINUTE; at - at;
abs(at - TIMESTAMP '2000-01-01 00:00:00'); at - NULL; - (at - at); NULL - n; at + NULL; NULL + n; NULL * 2
"""
COMPARED = """
i BETWEEN -1 AND 7; x NOT BETWEEN 0 AND 2;
i IN (7, 0); i IN (7, j, 100); x IN (0.0, 1.5, 3.0); v IN ('ab', NULL, 'abc');
i NOT IN (7, NULL); 1 IN (NULL); NULL IN (1, 2); d IN (1, 3, 12.5); y IN (CAST('NaN' AS DOUBLE), 1.0); c IN (d, 1, 2);
day IN ('2024-02-29', '1970-01-01'); b IN (TRUE); at IN (day, '2024-01-05'); '1970-01-01 00:00:00' IN (day, at);
l IN (9223372036854775806, 0.5); l NOT IN (9223372036854775806, 0.5); l IN (9223372036854775806, 2, 3, 4, 5, 0.5);
l IN (9223372036854775806, f); l NOT IN (-9223372036854775807, x, NULL); l IN (CAST(s AS BIGINT), x); i IN (l, f);
9223372036854775806 IN (l, x); 9223372036854775806 IN (l, 0.5); l + 0 IN (9223372036854775806 - t, y); f IN (i, 1.5);
w IN (1, 0.5); w NOT IN (1, x); c IN (w, 0.5); d IN (l, x); h IN (l, 1234567890123456789, 0.5); l IN (h, f);
h IN (h - 1, 0.5); x IN (l, 9007199254740993); l IN (h, 7); t IN (l, 12); h IN (t, 1); w IN (c, 1); NULL IN (l, x);
l IN (1, 2, 3000000000); x IN (-0.0, 9.0, 8.0); b AND g; b OR g; NOT b;
b AND NULL; b OR NULL; b IS NULL; v IS NOT NULL; NULL IS NULL; b AND (g OR i > 0); x > 1 OR y < 1; NULL = NULL
"""
OF_A_NUMBER = """
sign({a}); floor({a}); ceil({a}); sqrt({a}); exp({a}); ln({a}); log10({a}); power({a}, 2); power(2, {a}); round({a});
round({a}, 1); round({a}, 2); round({a}, -1); round({a}, -2); round({a}, 15); greatest({a}, j); least({a}, x);
coalesce({a}, j); nullif({a}, 1); greatest({a}, y, NULL); coalesce({a}, 1); if(b, {a}, 2); CASE WHEN g THEN {a} END;
CASE {a} WHEN 1 THEN 'one' ELSE 'no' END; {a} + 3; {a} * -100; {a} - 2.5; {a} + NULL; {a} * 3000000000
"""
FUNCTIONS = """
sin(x); cos(y); tan(y); sin(i); round(x, 400); round(x, -400); round(x, NULL); round(x, 5); round(w, 20); round(w, -3);
round(x, 2); round(l, -19); round(l, -20); round(t, -2); round(t, -3); floor(1.7); floor(x); ceil(f); greatest(d, c);
least(d, 1); greatest(w, d); greatest(v, s); least(day, at); greatest(at, at); greatest(b, g); least(b, g);
greatest(n, NULL); least(raw, raw); greatest(x, y); least(x, y); greatest(at - at, INTERVAL '1' DAY); abs(NULL);
coalesce(NULL, i); coalesce(v, s, 'x'); nullif(x, y); nullif(v, 'ab'); nullif(at, day); if(NULL, 1, 2); if(b, 1, NULL);
coalesce(day, at); nullif(b, g); substring('abc', -2); substring(v, NULL); substring(v, 1, NULL); substring(NULL, 1);
substring(v, -2, 1); v NOT LIKE 'a%'; NULL LIKE 'a'; 'abc' LIKE 'a%'; concat(v, s); concat(v, NULL); concat(v);
v || '-' || s; extract(hour FROM at); round(f / 10); round(-0.4); round(x / 100, -1); sign(f); sign(-0.0);
power(y, x); power(x, y); power(f, x); power(i, x); power(1, x); power(-1, y); power(x, 0); power(t, f);
power(i, CAST('Infinity' AS DOUBLE)); power(1, CAST('NaN' AS DOUBLE)); power(-1, CAST('-Infinity' AS FLOAT));
power(NULL, x); power(x, CAST(NULL AS INT)); power(CAST('NaN' AS DOUBLE), 0); greatest(w, h, x); coalesce(w, h, x);
least(w, x, h); CASE WHEN b THEN w WHEN g THEN h ELSE f END;
year(n + INTERVAL '13000000' DAY); month(n + INTERVAL '13000000' DAY); day(n - INTERVAL '13000000' DAY);
hour(n - INTERVAL '13000000' DAY); replace(v, '', 'X'); replace('aaa', 'a', 'bb'); startswith('abc', 'a')
"""
CASTS = """
CAST(CAST(s AS STRING) AS STRING); CAST(2.675 AS DECIMAL(5, 2)); CAST(TRUE AS DECIMAL(1, 1)); CAST(300 AS TINYINT);
TRY_CAST(3.7 AS INT); CAST(v AS BINARY);
CAST('abc' AS INT); TRY_CAST('abc' AS INT); CAST(NULL AS DATE); CAST(x AS STRING);
CAST('2024-01-05 10:00:00+01:00' AS TIMESTAMP_NTZ); CAST(d AS STRING); CAST(w AS STRING); CAST(f AS STRING);
CAST(day AS STRING); CAST(at AS STRING); CAST(n AS STRING); CAST(b AS STRING); CAST(i + 1 AS STRING); CAST(s AS INT);
TRY_CAST(s AS INT); CAST(s AS DOUBLE); TRY_CAST(s AS FLOAT); CAST(s AS DECIMAL(10, 2)); TRY_CAST(s AS DECIMAL(38, 10));
CAST(s AS BOOLEAN); TRY_CAST(v AS BOOLEAN); CAST(x AS BOOLEAN); CAST(d AS BOOLEAN); CAST(x AS DECIMAL(10, 2));
CAST(at AS BIGINT); CAST(at AS INT); CAST(at AS DOUBLE); CAST(at AS DECIMAL(30, 6)); TRY_CAST(at AS TINYINT);
CAST(at + INTERVAL '3000000' DAY AS STRING); CAST(at - INTERVAL '900000' DAY AS STRING);
CAST(n + INTERVAL '50000000' DAY AS STRING); CAST(n - INTERVAL '50000000' DAY AS STRING);
CAST(CAST(at + INTERVAL '3000000' DAY AS DATE) AS STRING); CAST(CAST(n - INTERVAL '719600' DAY AS DATE) AS STRING);
CAST(CAST(n + INTERVAL '13000000' DAY AS DATE) AS STRING); CAST(n + INTERVAL '2931000' DAY AS STRING);
CAST(i AS TIMESTAMP); CAST(t AS TIMESTAMP); CAST(d AS TIMESTAMP); CAST(d AS DECIMAL(3, 1)); TRY_CAST(x AS BIGINT)
"""
DIGIT = "s LIKE '_' AND s <> '' AND s >= '0' AND s <= '9'"
BRANCHES = f"""
CASE WHEN {DIGIT} THEN CAST(s AS INT) END; if({DIGIT}, CAST(s AS INT), -1); {DIGIT} AND CAST(s AS INT) > 0;
coalesce(i, CAST('x' AS INT)); coalesce(TRY_CAST(s AS INT), CAST(v AS INT)); b OR CAST(s AS INT) > 0;
CASE WHEN i IS NULL THEN 0 WHEN i < 100 THEN i + 1 ELSE i - 1 END; CASE WHEN TRUE THEN 1 ELSE CAST('x' AS INT) END;
CASE WHEN j <> 0 THEN i * 2 ELSE i END; CASE WHEN b THEN 1 WHEN g THEN d ELSE i END; CASE b WHEN TRUE THEN 'y' END;
CASE WHEN b THEN NULL ELSE NULL END IS NULL; CASE WHEN b THEN day ELSE at END; if(b, c, w);
coalesce(NULL, NULL) IS NULL; greatest(NULL, NULL) IS NULL; nullif(NULL, 1) IS NULL; NOT (b AND CAST(s AS INT) > 0)
"""
"""What a row does not take does not raise for it."""
AFTER_A_NULL = """
i + CAST(s AS INT); CAST(s AS INT) + i; i - CAST(s AS INT); x * CAST(s AS DOUBLE); CAST(s AS DOUBLE) * x;
d + CAST(s AS DECIMAL(10, 2)); d - CAST(v AS DECIMAL(10, 2)); i > CAST(v AS INT); CAST(v AS INT) > i;
j = CAST(s AS INT); x <> CAST(v AS DOUBLE); i >= CAST(v AS INT); i BETWEEN 1 AND CAST(v AS INT);
i IN (CAST(v AS INT)); i IN (0, 7, CAST(v AS INT)); i NOT IN (1, NULL, CAST(s AS INT)); CAST(v AS INT) IN (i, 1);
nullif(i, CAST(v AS INT)); power(x, CAST(v AS DOUBLE)); power(CAST(v AS DOUBLE), x);
CASE i WHEN CAST(v AS INT) THEN 1 ELSE 2 END; greatest(i, CAST(v AS INT)); i + (j + CAST(v AS INT));
(j + i) + CAST(v AS INT); i < j + CAST(s AS INT); at - CAST(z AS TIMESTAMP); NULL + CAST(v AS INT);
CAST(NULL AS INT) > CAST(v AS INT); CAST(NULL AS STRING) = CAST(raw AS STRING); i + CAST('x' AS INT);
i = CAST('x' AS INT)
"""
"""Nor does what comes after a null."""
PATTERNS = r"a%; %b; _b; a\%b; a\_b; a\\b; %; ; a_b; ___x; %a%b%; (; a.b; %\%"
PAIRS = """
f ~ f; t ~ l; v ~ s; b ~ g; day ~ at; at ~ at; n ~ n; raw ~ raw; at ~ '2024-01-05'; day ~ '2024-02-29'; x ~ 1.5; i ~ 7;
d ~ 1; c ~ -100; 1.5 ~ x; y ~ CAST('NaN' AS DOUBLE); d ~ 1.05; i ~ NULL; w ~ w; h ~ h; at - at ~ INTERVAL '0' SECOND;
l ~ x; f ~ x; x ~ y; i ~ x; i ~ d; l ~ d; d ~ c; w ~ c; d ~ x; t ~ c; h ~ i
"""


def _products() -> Iterator[str]:
    for a, b, op in some(product(NUMBERS, NUMBERS, "+-*+")):
        yield f"{a} {op} {b}"
    for pair, op in some(product(cut(PAIRS), ("=", "<", ">=", "<>", ">", "<=", "<"))):
        yield pair.replace("~", op)
    yield from (one.format(a=a) for one, a in some(product(cut(OF_A_NUMBER), NUMBERS)))
    yield from (f"{sign}{a})" if sign == "abs(" else f"{sign}{a}" for sign, a in product(("-", "abs("), SHORT_NUMBERS))
    for word, a, kind in some(product(("CAST", "TRY_CAST"), (*NUMBERS, "s", "b", "1", "2.5", "NULL"), TYPES)):
        yield f"{word}({a} AS {kind})"
    for word, a, kind in product(("CAST", "TRY_CAST"), ("z", "day", "at", "n"), TIMES):
        yield f"{word}({a} AS {kind})"


def _text_and_times() -> Iterator[str]:
    for name, a in product(("length", "upper", "lower", "trim", "ltrim", "rtrim"), ("v", "' aB '", "NULL")):
        yield f"{name}({a})"
    for start, rest in some(product((1, 2, 0, -1, -2, -5, 100, -100), ("", ", 2", ", 0", ", -1", ", 2147483647"))):
        yield f"substring(v, {start}{rest})"
    for old, new in some(product(("'a'", "''", "'aa'", "NULL", "'é'"), ("'X'", "''", "'aa'", "NULL"))):
        yield f"replace(v, {old}, {new})"
    for name, part in product(("startswith", "endswith", "contains"), ("'a'", "''", "NULL", "'%'")):
        yield f"{name}(v, {part})"
    yield from (f"v LIKE '{pattern}'" for pattern in cut(PATTERNS))
    for name, a in product(("year", "month", "day", "hour", "minute", "second"), ("day", "at", "n", "NULL")):
        yield f"{name}({a})"


def _divided() -> Iterator[tuple[str, str]]:
    """A zero divisor is null here: in Spark's words, nullif."""
    for a, b in some(product(NUMBERS, (*NUMBERS, "j"))):
        yield f"{a} / {b}", f"CAST({a} AS DOUBLE) / CAST(nullif({b}, 0) AS DOUBLE)"
        if {a, b} not in ({"w"}, {"h"}, {"w", "h"}, {"w", "l"}):  # more digits than a remainder takes
            yield f"{a} % {b}", f"{a} % nullif({b}, 0)"
    for a in NUMBERS:
        yield f"{a} / 4", f"CAST({a} AS DOUBLE) / 4"
        yield f"{a} / 0", f"CAST({a} AS DOUBLE) / nullif(0, 0)"
        yield f"{a} % -1", f"{a} % -1"
        yield f"7 % {a}", f"7 % nullif({a}, 0)"
        yield f"{a} % 2.5", f"{a} % 2.5D"
    # Spark looks at the divisor first.
    for one in ("CAST(v AS INT) % nullif(j, 0)", "i % CAST(v AS INT)", "CAST(v AS DECIMAL(10, 2)) % nullif(d, 0)"):
        yield one, one
    yield "CAST(v AS INT) / nullif(i, 0)", "CAST(CAST(v AS INT) AS DOUBLE) / nullif(i, 0)"
    yield "i / CAST(v AS INT)", "CAST(i AS DOUBLE) / CAST(v AS INT)"


TABLES = (ARITHMETIC, COMPARED, FUNCTIONS, CASTS, BRANCHES, AFTER_A_NULL)


@pytest.fixture(scope="module")
def expressions(edges: Any) -> dict[str, str]:
    """Each as it is written here and in Spark."""
    alike = [*(one for table in TABLES for one in cut(table)), *_products(), *_text_and_times()]
    return {one: edges.for_spark(one) for one in alike} | dict(_divided())


@pytest.fixture(scope="module")
def own(edges: Any, expressions: dict[str, str]) -> dict[str, Cells]:
    """What the engine gives for every expression."""
    bound = edges.bound(list(expressions))
    return {ours: edges.by_engine(expr) for ours, expr in zip(expressions, bound, strict=True)}


def test_every_cell_is_what_spark_gives(
    edges: Any, spark: SparkSession, expressions: dict[str, str], own: dict[str, Cells]
) -> None:
    wrong, cells = [], 0
    for calm in (True, False):
        asked = [ours for ours in expressions if (edges.raises not in own[ours][1]) == calm]
        for first in range(0, len(asked), 150):
            part = asked[first : first + 150]
            found = edges.by_spark(spark, [expressions[ours] for ours in part], calm=calm)
            for ours, theirs in zip(part, found, strict=True):
                wrong += told(ours, own[ours], theirs, edges)
                cells += len(theirs[1])
    assert not wrong, f"{len(wrong)} of {len(expressions)} expressions:\n" + "\n".join(wrong)
    assert cells > 10_000


def told(ours: str, own: Cells, theirs: Cells, edges: Any) -> Iterator[str]:
    """Where an expression differs."""
    if own[0] != theirs[0]:
        yield f"{ours}: {own[0]}, in Spark {theirs[0]}"
    bad = [n for n, (one, other) in enumerate(zip(own[1], theirs[1], strict=True)) if not same(one, other)]
    if bad:
        inputs = {name: edges.rows[name][bad[0]].as_py() for name in edges.names if re.search(rf"\b{name}\b", ours)}
        yield f"{ours} of {inputs}: {own[1][bad[0]]!r}, in Spark {theirs[1][bad[0]]!r}, and {len(bad) - 1} more"


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if not ours and not theirs:
            return math.copysign(1, ours) == math.copysign(1, theirs)
        return (ours != ours and theirs != theirs) or ours == theirs or math.isclose(ours, theirs, rel_tol=1e-14)
    return type(ours) is type(theirs) and bool(ours == theirs)


def test_the_whole_engine_gives_the_same(edges: Any, own: dict[str, Cells]) -> None:
    """One query with every expression that raises on no row."""
    calm = [ours for ours, (_, found) in own.items() if edges.raises not in found]
    found = run(f"{edges.stream} {edges.query(calm)}", {"S": edges.rows})["q"]
    keys = run(f"{edges.stream} {edges.query(['a.k'])}", {"S": edges.rows})["q"]["v0"].to_pylist()
    assert len(calm) > 200
    for n, one in enumerate(calm):
        by_key = dict(zip(keys, found[f"v{n}"].to_pylist(), strict=True))
        assert all(same(by_key[k], value) for k, value in enumerate(own[one][1])), one


@pytest.mark.parametrize("last", ["concat(v, {0})", "concat('a', v, {0}, v)", "v || 'a' || {0}"])
def test_concat_looks_at_nothing_after_a_null(edges: Any, spark: SparkSession, last: str) -> None:
    """As Spark does with generated code, which is how it runs; without it concat looks at everything."""
    fails = "CAST(CAST(s AS INT) AS STRING)"
    expression = last.format(fails)
    rows = edges.rows.filter(pc.is_null(edges.rows["v"])).select(["s", "v"])
    generated = spark.newSession()
    generated.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    # Else the planner itself evaluates so few rows.
    no_shortcut = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    generated.conf.set("spark.sql.optimizer.excludedRules", no_shortcut)
    theirs = generated.createDataFrame(rows).selectExpr(expression).toArrow()[0].to_pylist()
    found, first = edges.bound([expression, f"concat({fails}, v)"])
    at_nulls = [n for n, one in enumerate(edges.rows["v"].to_pylist()) if one is None]
    assert [edges.by_engine(found)[1][n] for n in at_nulls] == theirs == [None, None]
    assert edges.raises in [edges.by_engine(first)[1][n] for n in at_nulls]
