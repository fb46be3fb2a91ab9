"""Which queries share a chain."""

from __future__ import annotations

from collections.abc import Callable

from millstream.compile import compile_script
from millstream.plan import Plan


def names(plan: Plan) -> list[list[str]]:
    return [[member.name for member in chain.members] for chain in plan.chains]


def test_same_streams_and_predicate_share_whatever_the_order(planned: Callable[..., Plan]) -> None:
    plan = planned(
        "SELECT A.k FROM A, B WHERE A.k = B.k AND A.j = B.j WINDOW 2 SECONDS",
        "SELECT A.k FROM B JOIN A ON B.j = A.j AND B.k = A.k WINDOW 1 SECOND",
        "SELECT A.k FROM A JOIN B USING (k, j) WHERE A.v > 3 WINDOW 3 SECONDS",
    )
    assert names(plan) == [["q2", "q1", "q3"]]


def test_other_predicates_and_streams_have_their_own_chain(planned: Callable[..., Plan]) -> None:
    plan = planned(
        "SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 SECOND",
        "SELECT A.k FROM A, B WHERE A.j = B.j WINDOW 1 SECOND",
        "SELECT A.k FROM A, B WHERE A.k = B.k AND A.j = B.j WINDOW 1 SECOND",
        "SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 1 SECOND",
        "SELECT A.k FROM A, B WHERE A.k + 1 = B.k WINDOW 1 SECOND",
    )
    assert sorted(map(tuple, names(plan))) == [("q1",), ("q2",), ("q3",), ("q4",), ("q5",)]


def test_members_run_from_narrow_to_wide(planned: Callable[..., Plan]) -> None:
    windows = ("5 SECONDS", "1 SECOND", "3 SECONDS")
    plan = planned(*(f"SELECT A.k FROM A, B WHERE A.k = B.k WINDOW {window}" for window in windows))
    assert names(plan) == [["q2", "q3", "q1"]]


def test_predicates_that_read_alike_do_not_share_a_chain() -> None:
    columns = '(x INT, "x + 1" INT, st STRUCT<b: INT>, "st.b" INT, Ts TIMESTAMP)'
    script = "".join(f"CREATE STREAM {name} {columns} WITH (time = 'Ts');" for name in "AB")
    for number, key in enumerate(("a.x + 1 = b.x", 'a."x + 1" = b.x', "a.st.b = b.x", 'a."st.b" = b.x')):
        script += f"CREATE QUERY q{number} AS SELECT a.x FROM A a, B b WHERE {key} WINDOW 1 SECOND;"
    plan = compile_script(script)
    assert sorted(len(chain.members) for chain in plan.chains) == [1, 1, 1, 1]
    assert len({chain.signature for chain in plan.chains}) == 4


def test_the_same_predicate_however_it_is_written_shares_a_chain() -> None:
    script = "".join(f"CREATE STREAM {name} (x INT, y INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB")
    for number, key in enumerate(("a.x + a.y = b.x", "b.x = a.y + a.x", "b.X = (A.Y + a.x)")):
        script += f"CREATE QUERY q{number} AS SELECT a.x FROM A a, B b WHERE {key} WINDOW 1 SECOND;"
    assert [len(chain.members) for chain in compile_script(script).chains] == [3]
