"""A key's code and slot depend on that key alone, whoever else is there; a stream on several routes is counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from millstream.compile import compile_script
from millstream.engine import keys
from millstream.engine.groups import Grouping
from millstream.errors import ScriptError
from millstream.model.functions import Function, function
from millstream.model.types import INT
from millstream.pipeline.routing import Router, Routing, check_codings
from millstream.pipeline.session import make_session
from millstream.testing import Session, run
from two_streams import START, STREAMS, same

PLAIN = "SELECT A.k, A.v AS av, B.v AS bv FROM A, B WHERE A.k = B.k WINDOW 60 SECONDS"
COMPUTED = "SELECT A.k, A.v AS av, B.v AS bv FROM A, B WHERE A.k + 1 = B.k WINDOW 60 SECONDS"
BATCHES = [
    {
        name: [{"k": n % 5, "v": n + shift + batch, "Ts": START + timedelta(seconds=batch)} for n in range(15)]
        for name, shift in (("A", 0.0), ("B", 0.5))
    }
    for batch in range(4)
]


def test_an_expression_key_comes_and_goes_beside_a_plain_one(mill: Callable[..., Any]) -> None:
    script = f"{STREAMS} CREATE QUERY plain AS {PLAIN};"
    both = f"{script} CREATE QUERY computed AS {COMPUTED};"
    session = Session(script)
    found = mill(script)
    found.pipeline.start()
    for number, batch in enumerate(BATCHES):
        if number == 1:
            found.pipeline.query("computed", COMPUTED)
            session.change(both)
        if number == 3:
            same(found.results("computed"), session.results("computed"))
            found.pipeline.drop("computed")
            session.change(script)
        found.put(batch)
        session.feed(batch)
        found.await_rows(30)
    found.pipeline.stop()
    same(found.results("plain"), session.results("plain"))


def test_an_expression_key_comes_and_goes_with_the_script(mill: Callable[..., Any]) -> None:
    script = f"{STREAMS} CREATE QUERY plain AS {PLAIN};"
    both = f"{script} CREATE QUERY computed AS {COMPUTED};"
    session = Session(script)
    for text, batch in zip((script, both, both, script), BATCHES, strict=True):
        found = mill(text)
        found.put(batch)
        found.pipeline.drain()
        session.change(text)
        session.feed(batch)
        for query in session.plan.script.queries:
            same(found.results(query.name), session.results(query.name))


def test_codes_of_one_integer_are_a_bijection() -> None:
    """What the engine relies on when it does not compare integer keys again: codes can be turned back into keys."""
    drawn = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 500)
    edges = [0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63)]
    sample = [*edges, *drawn.tolist(), *range(-300, 300)]
    values = np.array(sample, dtype=np.int64)
    mine = keys.codes([pa.array(values)], len(values))
    assert (_undone_splitmix(mine).view(np.int64) == values).all()

    spark = make_session("test")
    frame = spark.createDataFrame([(value,) for value in sample], "k BIGINT").selectExpr("xxhash64(k) AS code")
    codes = np.array([row.code for row in frame.collect()], dtype=np.int64).view(np.uint64)
    assert (_undone_xxhash(codes).view(np.int64) == values).all()


def _unshifted(values: np.ndarray, bits: int) -> np.ndarray:
    """Undoes x ^= x >> bits."""
    found = values.copy()
    for _ in range(64 // bits):
        found = values ^ (found >> np.uint64(bits))
    return found


def _inverse(odd: int) -> np.uint64:
    return np.uint64(pow(odd, -1, 2**64))


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _undone_splitmix(codes: np.ndarray) -> np.ndarray:
    values = _unshifted(codes, 31) * _inverse(0x94D049BB133111EB)
    values = _unshifted(values, 27) * _inverse(0xBF58476D1CE4E5B9)
    return _unshifted(values, 30) - np.uint64(0x9E3779B97F4A7C15)


def _undone_xxhash(codes: np.ndarray) -> np.ndarray:
    """XXH64 of eight bytes with the seed 42, step by step backwards."""
    one, two, three = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    four, five = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
    values = _unshifted(codes, 32) * _inverse(three)
    values = _unshifted(values, 29) * _inverse(two)
    values = _unshifted(values, 33)
    values = _rotated((values - np.uint64(four)) * _inverse(one), 64 - 27)
    values = values ^ np.uint64((42 + five + 8) % 2**64)
    return _rotated(values * _inverse(one), 64 - 31) * _inverse(two)


def test_a_hash_that_is_none_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "scramble", lambda values: values * np.uint64(2))
    with pytest.raises(AssertionError):
        test_codes_of_one_integer_are_a_bijection()


def test_a_route_is_shared_by_all_chains_that_have_its_key() -> None:
    plan = compile_script(
        STREAMS
        + "CREATE STREAM C (k BIGINT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');"
        + f"CREATE QUERY ab AS {PLAIN}; CREATE QUERY computed AS {COMPUTED};"
        + "CREATE QUERY ac AS SELECT A.k FROM A, C WHERE A.k = C.k WINDOW 1 SECOND;"
        + "CREATE QUERY by_v AS SELECT A.k FROM A, C WHERE A.v = C.v WINDOW 1 SECOND;"
    )
    routing = Routing.of(plan)
    # A by k, B by k, C by k, A by k + 1, A by v, C by v
    assert len(routing.routes) == 6
    assert set(routing.codings().values()) == {"xxhash64(BIGINT)", "xxhash64(DOUBLE)"}
    assert len(routing.counting) == 3


def test_a_stream_without_the_key_of_the_others_goes_to_every_slot_and_counts_in_the_first() -> None:
    fast = STREAMS.replace("time = 'Ts'", "time = 'Ts', rate = 1000000")
    third = "CREATE STREAM C (k BIGINT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');"
    query = "CREATE QUERY q AS SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.v = C.v WINDOW 1 SECOND;"
    plan = compile_script(fast + third + query)
    routing = Routing.of(plan)
    ways = {plan.pool(name).title: number for name, number in routing.ways.items()}
    assert ways["B by k"] == ways["B by v"], "rows of B are sent once, whatever they are found by"
    assert len(routing.routes) == 3
    c = ways["C by v"]
    assert routing.routes[c].coding == "everywhere"
    assert [routing.counts(c, slot) for slot in range(3)] == [True, False, False]
    assert [routing.counts(ways["A by k"], slot) for slot in range(3)] == [True, True, True]
    assert set(routing.codings().values()) == {"xxhash64(BIGINT)", "everywhere"}


def test_a_chain_without_an_equality_is_coded_by_its_own_name() -> None:
    plan = compile_script(STREAMS + "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.v < B.v WINDOW 1 SECOND;")
    routing = Routing.of(plan)
    assert set(routing.codings().values()) == {"xxhash64(chain)"}
    assert {route.spread.chain for route in routing.routes} == {chain.signature for chain in plan.chains}


def test_rows_of_three_streams_meet_in_every_slot(mill: Callable[..., Any]) -> None:
    """By one key, along a path of two, and without any: on three slots as in one process."""
    third = "CREATE STREAM C (k BIGINT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');"
    wheres = {
        "one": "A.k = B.k AND B.k = C.k",
        "path": "A.k = B.k AND B.v - 0.5 = C.v",
        "none": "A.v + 9 < B.v AND C.v > B.v + 3",
    }
    script = STREAMS + third
    for name, where in wheres.items():
        script += (
            f"CREATE QUERY {name} AS SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE {where} WINDOW 3 SECONDS;"
        )
    batches = [{**batch, "C": [{**row, "v": row["v"] + 1} for row in batch["A"]]} for batch in BATCHES[:3]]
    found = mill(script, settings={"slots": "3"})
    for batch in batches:
        found.put(batch)
    found.pipeline.drain()
    wanted = run(script, {name: [batch[name] for batch in batches] for name in "ABC"})
    for name in wheres:
        assert wanted[name].num_rows
        same(found.results(name), wanted[name])
    told = [found.done.get_nowait() for _ in range(found.done.qsize())]
    assert {name: sum(batch.rows_in.get(name, 0) for batch in told) for name in "ABC"} == dict.fromkeys("ABC", 45)


@pytest.mark.parametrize("table", [[0], [0, 0], [1, 0], [2, 0, 1, 0], [group * 5 // 1024 for group in range(1024)]])
def test_a_row_goes_to_the_slot_of_the_group_of_its_code(table: list[int]) -> None:
    """By any table, such as one that has been changed; rows that go everywhere go to every slot once."""
    third = "CREATE STREAM C (k BIGINT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');"
    fast = STREAMS.replace("time = 'Ts'", "time = 'Ts', rate = 1000000")
    query = "CREATE QUERY q AS SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.v = C.v WINDOW 1 SECOND;"
    routing = Routing.of(compile_script(fast + third + query))
    (everywhere,) = (number for number, route in enumerate(routing.routes) if route.spread.everywhere)
    columns = [f"CAST(id AS {kind}) AS {name}" for name, kind in routing.layout.columns]
    rows = (
        make_session("test").range(300).selectExpr("CAST(id % 3 AS INT) stream", "CAST(NULL AS STRING) bad", *columns)
    )
    found = Router(routing, table, {}).routed(rows).select("route", "code", "slot").collect()
    codes = np.array([row.code for row in found], dtype=np.int64).view(np.uint64)
    assert [row.slot for row in found] == [table[group] for group in Grouping(len(table)).of(codes)]
    sent = Counter(row.slot for row in found if row.route == everywhere)
    assert sent == dict.fromkeys(table, 100)
    assert len(found) == 200 + 100 * len(set(table))


def test_another_number_of_groups_is_refused(mill: Callable[..., Any]) -> None:
    script = f"{STREAMS} CREATE QUERY plain AS {PLAIN};"
    first = mill(script, settings={"groups": "1", "slots": "1"})
    first.put(BATCHES[0])
    first.pipeline.drain()
    wanted = r"state: groups = 1024, and the state here is divided into 1 groups; .* SET groups = 1, or start in a new"
    with pytest.raises(ScriptError, match=wanted):
        mill(script).pipeline.drain()
    again = mill(f"{script} SET groups = 1;")
    again.put(BATCHES[1])
    again.pipeline.drain()
    same(again.results("plain"), run(script, {name: [batch[name] for batch in BATCHES[:2]] for name in "AB"})["plain"])


def test_state_coded_in_another_way_is_refused() -> None:
    check_codings({"x": "xxhash64(BIGINT)"}, {"x": "xxhash64(BIGINT)", "y": "xxhash64(STRING)"}, "d")
    with pytest.raises(ScriptError, match=r"d: keys in the state are coded as other\(BIGINT\); this Millstream codes"):
        check_codings({"x": "other(BIGINT)"}, {"x": "xxhash64(BIGINT)"}, "d")


def test_a_stream_on_several_routes_is_counted_and_late_once(mill: Callable[..., Any], tmp_path: Path) -> None:
    script = f"""{STREAMS} CREATE QUERY by_k AS {PLAIN};
    CREATE QUERY by_v AS SELECT A.k FROM A, B WHERE A.v = B.v WINDOW 1 SECOND;
    CREATE QUERY computed AS {COMPUTED};
    CREATE QUERY itself AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 1 SECOND;"""
    found = mill(script, settings={"slots": "3"})
    late = [{"k": n, "v": 0.0, "Ts": START - timedelta(hours=1)} for n in range(7)]
    found.put(BATCHES[0])
    found.put({"A": [*BATCHES[1]["A"], *late, {"k": 1, "v": 1.0, "Ts": None}], "B": BATCHES[1]["B"]})
    found.pipeline.drain()
    batches = [found.done.get_nowait() for _ in range(found.done.qsize())]
    assert sum(batch.rows_in.get("A", 0) for batch in batches) == 15 + 15 + 7 + 1
    assert sum(batch.rows_in.get("B", 0) for batch in batches) == 30
    assert sum(batch.late.get("A", 0) for batch in batches) == 8
    told = ds.dataset(tmp_path / "state" / "late" / "A").to_table().to_pylist()
    assert sorted((row["_reason"], row["_chain"]) for row in told) == [
        ("null time", None),
        *[("older than the watermark", "A A k = k; A B k + 1 = k; A B k = k; A B v = v")] * 7,
    ]


def test_a_key_that_fails_while_rows_are_sent_out_stops_its_queries(mill: Callable[..., Any], tmp_path: Path) -> None:
    """The function fails before the shuffle and never again: rows must not be sent under a wrong code."""
    mark = str(tmp_path / "failed")

    @function("INT", "INT")
    def moody(key: np.ndarray) -> np.ndarray:
        from pathlib import Path

        if len(key) and not Path(mark).exists():
            Path(mark).touch()
            raise ValueError("not today")
        return key

    script = f"{STREAMS} CREATE QUERY plain AS {PLAIN};"
    moody_one = "CREATE QUERY moody AS SELECT A.k FROM A, B WHERE moody(A.k) = B.k WINDOW 60 SECONDS;"
    found = mill(script + moody_one, functions={"moody": moody})
    found.put(BATCHES[0])
    found.pipeline.drain()
    assert any("query moody is stopped: ValueError: not today" in said for said in found.said)
    same(found.results("plain"), run(script, {name: [BATCHES[0][name]] for name in "AB"})["plain"])


def test_a_key_that_cannot_be_built_stops_its_queries_alone(mill: Callable[..., Any]) -> None:
    hollow = Function("hollow", (INT,), lambda _: INT)  # it has no body
    script = f"{STREAMS} CREATE QUERY plain AS {PLAIN};"
    broken = "CREATE QUERY broken AS SELECT A.k FROM A, B WHERE hollow(A.k) = B.k WINDOW 60 SECONDS;"
    found = mill(script + broken, functions={"hollow": hollow})
    found.put(BATCHES[0])
    found.pipeline.drain()
    assert found.said == ["query broken is stopped: cannot be run: hollow has no body"]
    same(found.results("plain"), run(script, {name: [BATCHES[0][name]] for name in "AB"})["plain"])
