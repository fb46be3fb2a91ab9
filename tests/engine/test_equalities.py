"""Equal keys: what codes do not prove is compared, and columns that are the same are gathered once."""

from __future__ import annotations

from itertools import product
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine import widths
from millstream.engine.equalities import Equalities, equal_columns
from millstream.engine.keys import codes
from millstream.engine.pairs import Pairs
from millstream.engine.segment import Lot, Segment, build
from millstream.model.expr import Column
from millstream.model.query import Key
from millstream.model.types import DOUBLE, STRING
from millstream.plan.nodes import LEFT, RIGHT, Chain

TEXTS, NUMBERS = ("", "a", "ab", None), (0.0, -0.0, nan, 1.5, None)
rows_of = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(NUMBERS)), min_size=1, max_size=5)
Row = tuple[str | None, float | None]


def segment(rows: list[Row]) -> Segment:
    batch = pa.RecordBatch.from_pydict(
        {
            "s": pa.array([text for text, _ in rows], pa.string()),
            "d": pa.array([number for _, number in rows], pa.float64()),
            "Ts": pa.array([0] * len(rows), pa.int64()).view(pa.timestamp("us", "UTC")),
        }
    )
    return build(1, 1, Lot(1), batch, "Ts", codes([], len(rows)))


def key(left: int, right: int, name: str) -> Key:
    kind = {"s": STRING, "d": DOUBLE}[name]
    return Key(Column(left, name, kind), Column(right, name, kind), kind)


def is_equal(one: Any, other: Any) -> bool:
    """As Spark has it: a null is equal to nothing, a NaN to itself."""
    if one is None or other is None:
        return False
    return bool(one == other or (one != one and other != other))


@given(
    sides=st.tuples(rows_of, rows_of, rows_of),
    keys=st.lists(st.sampled_from([key(0, 1, "s"), key(0, 1, "d"), key(1, 2, "s"), key(0, 2, "d")]), max_size=3),
    chunk=st.sampled_from([1, 4, 1 << 26]),
)
def test_kept_is_what_has_equal_keys(sides: tuple[list[Row], ...], keys: list[Key], chunk: int) -> None:
    every = list(product(*(range(len(side)) for side in sides)))
    rows = tuple(np.array([one[at] for one in every]) for at in range(3))
    pairs = Pairs(tuple(map(segment, sides)), rows, {})
    columns = {"s": 0, "d": 1}

    def value(combination: tuple[int, ...], expr: Any) -> Any:
        return sides[expr.source][combination[expr.source]][columns[expr.name]]

    wanted = [
        number
        for number, one in enumerate(every)
        if all(is_equal(value(one, each.left), value(one, each.right)) for each in keys)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(widths, "CHUNK_BYTES", chunk)
        found = Equalities(keys, {}, 3).kept_positions(pairs)
    assert (list(range(len(every))) if found is None else found.tolist()) == wanted
    kept = Equalities(keys, {}, 3).kept(pairs)
    assert (kept is pairs) == (len(wanted) == len(every)), "nothing is copied where all are equal"
    assert len(kept) == len(wanted)


def test_a_position_that_is_not_placed_yet_is_not_asked() -> None:
    one, other = segment([("a", 1.0), ("b", 1.0)]), segment([("a", 1.0)])
    pairs = Pairs((one, None, other), (np.array([0, 1]), None, np.array([0, 0])), {})
    assert len(Equalities([key(0, 2, "s")], {}, 3).kept(pairs)) == 1


COLUMNS = "k INT, j BIGINT, s STRING, Ts TIMESTAMP"


def chain_of(where: str, streams: str = "A, B") -> Chain:
    script = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "ABCD")
    (chain,) = compile_script(
        f"{script} CREATE QUERY q AS SELECT A.k FROM {streams} WHERE {where} WINDOW 1 HOUR;"
    ).chains
    return chain


def test_a_column_that_is_the_key_is_taken_from_the_rows_that_probe() -> None:
    chain = chain_of("A.k = B.k")
    assert equal_columns(chain, LEFT) == {(1, "k"): (0, "k")}
    assert equal_columns(chain, RIGHT) == {(0, "k"): (1, "k")}


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("A.s = B.s", "hashed keys may collide, and are looked at on both"),
        ("A.k = B.j", "another type"),
        ("A.k + 1 = B.k", "another value"),
        ("A.k = B.k AND A.j = B.j", "two keys are hashed"),
    ],
)
def test_a_column_with_other_values_is_its_own(where: str, why: str) -> None:
    chain = chain_of(where)
    assert (equal_columns(chain, LEFT), equal_columns(chain, RIGHT)) == ({}, {}), why


@pytest.mark.parametrize("where", ["A.k = B.k AND B.k = C.k AND C.k = D.k", "A.k = B.k AND A.k = C.k AND A.k = D.k"])
def test_a_key_of_all_streams_is_that_of_the_rows_that_probe(where: str) -> None:
    chain = chain_of(where, "A, B, C, D")
    for at in range(4):
        found = equal_columns(chain, at)
        assert all(column not in found.values() for column in found), "a column taken from another has its own rows"
        for column, other in found.items():
            assert column[1] == other[1] == "k"
            order = [at, *(step.position for step in chain.walks[at])]
            assert order.index(other[0]) < order.index(column[0]), "which are placed before"


def test_equalities_are_followed_to_the_rows_that_probe() -> None:
    chain = chain_of("A.k = B.k AND B.k = C.k AND C.k = D.k", "A, B, C, D")
    assert [step.position for step in chain.walks[0]] == [1, 2, 3]
    assert equal_columns(chain, 0) == {(1, "k"): (0, "k"), (2, "k"): (0, "k"), (3, "k"): (0, "k")}


def test_columns_of_different_keys_are_not_mixed() -> None:
    chain = chain_of("A.k = B.k AND B.j = C.j", "A, B, C")
    for at in range(3):
        for column, other in equal_columns(chain, at).items():
            assert column[1] == other[1]
    assert equal_columns(chain, 1) == {(0, "k"): (1, "k"), (2, "j"): (1, "j")}
