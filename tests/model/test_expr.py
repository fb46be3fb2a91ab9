"""Typed expressions: canonical form, order, text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model import TRUE, Call, Column, Expr, Literal
from millstream.model.expr import canonical, conjuncts, moved, order, sources, text, walk
from millstream.model.types import BOOLEAN, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP

A, B = Column(0, "a", INT), Column(1, "b", INT)
OK = Column(0, "ok", BOOLEAN)
CAST, LATER = Call("cast", (Column(0, "s", STRING),), INT), Call("nullif", (A, B), INT)
"""One that can fail, and one that cannot and stands later in the alphabet."""
ONE, TWO = Literal(1, INT), Literal(2, INT)

NUMBERS = st.recursive(
    st.sampled_from([A, B, Column(0, "c", DOUBLE), ONE, TWO, Literal(0.5, DOUBLE)]),
    lambda inner: st.builds(lambda op, x, y: Call(op, (x, y), INT), st.sampled_from(["+", "-", "*"]), inner, inner),
    max_leaves=4,
)
COMPARED = st.one_of(
    st.builds(
        lambda op, x, y: Call(op, (x, y), BOOLEAN), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), NUMBERS, NUMBERS
    ),
    st.builds(
        lambda x, options: Call("in", (x, *options), BOOLEAN), NUMBERS, st.lists(NUMBERS, min_size=1, max_size=3)
    ),
    st.sampled_from([OK, Column(1, "ok", BOOLEAN)]),
)
PREDICATES = st.recursive(
    COMPARED,
    lambda inner: st.one_of(
        st.builds(lambda x: Call("not", (x,), BOOLEAN), inner),
        st.builds(
            lambda op, args: Call(op, tuple(args), BOOLEAN),
            st.sampled_from(["and", "or"]),
            st.lists(inner, min_size=2, max_size=3),
        ),
    ),
    max_leaves=8,
)


def shown(expr: Expr) -> str:
    return text(expr, lambda column: column.name)


def shuffled(expr: Expr, rnd: random.Random) -> Expr:
    """The same meaning in another order of writing."""
    if not isinstance(expr, Call):
        return expr
    args = [shuffled(arg, rnd) for arg in expr.args]
    if expr.op in ("and", "or", "=", "<>", "+", "*"):
        rnd.shuffle(args)
    elif expr.op == "in":
        rest = args[1:]
        rnd.shuffle(rest)
        args[1:] = rest
    elif expr.op in ("<", "<=", ">", ">=") and rnd.random() < 0.5:
        mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[expr.op]
        return Call(mirrored, (args[1], args[0]), expr.type)
    return Call(expr.op, tuple(args), expr.type)


@given(PREDICATES)
def test_canonical_is_idempotent(expr: Expr) -> None:
    assert canonical(canonical(expr)) == canonical(expr)


@given(PREDICATES, st.randoms(use_true_random=False))
def test_canonical_does_not_depend_on_the_order_of_writing(expr: Expr, rnd: random.Random) -> None:
    assert canonical(shuffled(expr, rnd)) == canonical(expr)


@given(PREDICATES)
def test_canonical_looks_at_the_same_sources(expr: Expr) -> None:
    assert sources(canonical(expr)) == sources(expr)


@given(PREDICATES, PREDICATES)
def test_order_tells_canonical_expressions_apart(one: Expr, other: Expr) -> None:
    one, other = canonical(one), canonical(other)
    assert (order(one) == order(other)) == (one == other)


@given(PREDICATES)
def test_moved_back_is_where_it_was(expr: Expr) -> None:
    flipped = moved(expr, lambda source: 1 - source)
    assert sources(flipped) == {1 - source for source in sources(expr)}
    assert moved(flipped, lambda source: 1 - source) == expr


def call(op: str, *args: Expr) -> Call:
    return Call(op, args, BOOLEAN)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (call("<", ONE, A), call(">", A, ONE)),
        (call("=", B, A), call("=", A, B)),
        (call("and", OK, call("and", OK, call("=", A, ONE))), call("and", call("=", A, ONE), OK)),
        (call("or", OK, OK), OK),
        (call("not", call("not", OK)), OK),
        (call("in", A, TWO, ONE, TWO), call("in", A, ONE, TWO)),
        (Call("-", (B, A), INT), Call("-", (B, A), INT)),
        (Call("+", (B, A), INT), Call("+", (A, B), INT)),
        (call(">", CAST, LATER), call("<", LATER, CAST)),
        (call("<", LATER, CAST), call("<", LATER, CAST)),
        (Call("*", (CAST, LATER), INT), Call("*", (LATER, CAST), INT)),
    ],
)
def test_canonical_forms(expr: Expr, expected: Expr) -> None:
    assert canonical(expr) == expected


def test_conjuncts_are_the_parts_of_ands_only() -> None:
    first, second = call("=", A, ONE), call("or", OK, call("=", B, ONE))
    assert conjuncts(call("and", first, call("and", second, TRUE))) == (first, second)
    assert conjuncts(TRUE) == ()
    assert conjuncts(second) == (second,)


def test_walk_visits_every_node() -> None:
    assert list(walk(call("=", A, ONE))) == [call("=", A, ONE), A, ONE]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Literal("it's", STRING), "'it''s'"),
        (Literal(None, INT), "NULL"),
        (Literal(False, BOOLEAN), "FALSE"),
        (Literal(90_000_000, INTERVAL), "INTERVAL '90 s'"),
        (Literal(0, TIMESTAMP), "TIMESTAMP '1970-01-01 00:00:00'"),
        (Literal(-1, DATE), "DATE '1969-12-31'"),
        (call("and", OK, call("=", A, ONE)), "ok AND (a = 1)"),
        (call("not", call("is_null", A)), "NOT (a IS NULL)"),
        (call("in", A, ONE, TWO), "a IN (1, 2)"),
        (Call("case", (OK, ONE, TWO), INT), "CASE WHEN ok THEN 1 ELSE 2 END"),
        (Call("cast", (A,), STRING), "CAST(a AS STRING)"),
        (Call("try_cast", (A,), STRING), "TRY_CAST(a AS STRING)"),
        (Call("neg", (Call("+", (A, ONE), INT),), INT), "-(a + 1)"),
        (call("like", Column(0, "s", STRING), Literal("a%", STRING)), "s LIKE 'a%'"),
        (Call("field", (A, Literal("x", STRING)), INT), "a.x"),
        (Call("field", (A, Literal("x.y", STRING)), INT), 'a."x.y"'),
        (Call("round", (A, TWO), INT), "round(a, 2)"),
    ],
)
def test_text(expr: Expr, expected: str) -> None:
    assert shown(expr) == expected


def test_two_minus_signs_are_no_comment() -> None:
    least = Literal(-(2**31), INT)
    assert text(Call("neg", (least,), INT), lambda column: column.name) == "-(-2147483648)"
    assert text(Call("neg", (Call("neg", (A,), INT),), INT), lambda column: column.name) == "-(-a)"
