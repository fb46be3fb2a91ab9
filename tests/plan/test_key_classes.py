"""Classes of equal expressions: what equalities make equal, through any number of others, and nothing else."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model.expr import Call, Column, Expr, Literal
from millstream.model.query import Key
from millstream.model.types import BIGINT, DOUBLE, INT, STRING, DataType
from millstream.plan.key_classes import KeyPart, coded_as, key_classes

COLUMNS = [Column(source, name, INT) for source in range(4) for name in ("k", "j")]
pairs_of = st.lists(st.tuples(st.sampled_from(COLUMNS), st.sampled_from(COLUMNS)), max_size=8).map(
    lambda pairs: [(one, other) for one, other in pairs if one.source < other.source]
)


def equal(*pairs: tuple[Expr, Expr], kind: DataType = INT) -> list[Key]:
    return [Key(one, other, kind) for one, other in pairs]


def is_reached(one: Column, other: Column, pairs: list[tuple[Column, Column]]) -> bool:
    """By following equalities, one after the other."""
    reached, before = {one}, set[Column]()
    while reached != before:
        before = set(reached)
        reached |= {end for pair in pairs if set(pair) & reached for end in pair}
    return other in reached


@given(pairs_of)
def test_two_columns_are_in_one_class_where_equalities_lead_from_one_to_the_other(
    pairs: list[tuple[Column, Column]],
) -> None:
    classes = key_classes(equal(*pairs))
    joined = {end for pair in pairs for end in pair}
    assert sorted(map(repr, (expr for some in classes for expr in some.exprs))) == sorted(map(repr, joined))
    for one in joined:
        for other in joined:
            together = any(one in some.exprs and other in some.exprs for some in classes)
            assert together == is_reached(one, other, pairs)


@given(pairs=pairs_of, data=st.data())
def test_the_order_in_which_equalities_are_written_does_not_count(
    pairs: list[tuple[Column, Column]], data: st.DataObject
) -> None:
    keys = equal(*pairs)
    assert key_classes(data.draw(st.permutations(keys))) == key_classes(keys)


def test_a_class_knows_its_positions_and_the_first_expression_at_each() -> None:
    k0, k1, j1, k3 = Column(0, "k", INT), Column(1, "k", INT), Column(1, "j", INT), Column(3, "k", INT)
    for order in permutations(equal((k0, k1), (j1, k3), (k1, k3))):
        (some,) = key_classes(order)
        assert some.positions == {0, 1, 3}
        assert [some.at(position) for position in range(4)] == [k0, j1, None, k3]
        assert [expr.source for expr in some.exprs if isinstance(expr, Column)] == [0, 1, 1, 3]


def test_equalities_that_are_compared_in_different_types_stay_apart() -> None:
    """What is equal as a DOUBLE need not be equal as a BIGINT."""
    k0, k1, k2 = (Column(source, "k", INT) for source in range(3))
    classes = key_classes([*equal((k0, k1)), *equal((k1, k2), kind=DOUBLE)])
    assert sorted(some.positions for some in classes) == [{0, 1}, {1, 2}]
    assert {some.type for some in classes} == {BIGINT, DOUBLE}


def test_integers_of_any_width_are_coded_alike() -> None:
    k0, k1, k2 = Column(0, "k", INT), Column(1, "k", BIGINT), Column(2, "k", INT)
    (some,) = key_classes([*equal((k0, k1), kind=BIGINT), *equal((k0, k2))])
    assert (some.type, some.positions) == (BIGINT, {0, 1, 2})
    assert [coded_as(kind) for kind in (INT, BIGINT, DOUBLE, STRING)] == [BIGINT, BIGINT, DOUBLE, STRING]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (KeyPart(Column(0, "k", INT), BIGINT), KeyPart(Column(0, "k", INT), BIGINT), True),
        (KeyPart(Column(0, "k", INT), BIGINT), KeyPart(Column(0, "j", INT), BIGINT), False),
        (KeyPart(Column(0, "k", INT), BIGINT), KeyPart(Column(0, "k", INT), DOUBLE), False),
        (KeyPart(Column(0, "1", INT), INT), KeyPart(Literal(1, INT), INT), False),
    ],
)
def test_parts_have_the_same_name_where_they_are_the_same(one: KeyPart, other: KeyPart, same: bool) -> None:
    assert (one.name == other.name) == same


def test_a_part_is_computed_where_it_is_not_a_column() -> None:
    column = Column(0, "k", INT)
    assert not KeyPart(column, BIGINT).is_computed
    assert KeyPart(Call("+", (column, Literal(1, INT)), INT), BIGINT).is_computed
