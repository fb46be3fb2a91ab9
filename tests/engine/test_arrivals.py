"""The rows of a batch, laid out by pool: each is hidden from just the chains it is late for, and counts once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.arrivals import Arrivals, arrivals
from millstream.engine.batch import BatchInput, StreamRows
from millstream.engine.release import SEQUENCE
from millstream.model.stream import Stream

PLAN = compile_script(
    "".join(f"CREATE STREAM {name} (id BIGINT, k INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABC")
    + "".join(
        f"CREATE QUERY {name} AS SELECT x.Ts AS a, y.Ts AS b FROM {sources} WHERE x.k = y.k WINDOW 1 SECOND;"
        for name, sources in (("ab", "A x, B y"), ("ac", "A x, C y"), ("aa", "A x, A y"))
    )
    + "CREATE QUERY text AS SELECT x.Ts AS a, y.Ts AS b FROM A x, C y WHERE CAST(x.k AS STRING) = CAST(y.k AS STRING)"
    " WINDOW 1 SECOND;"
)
STREAMS = {stream.name: stream for stream in PLAN.script.streams}
CHAINS = {chain.members[0].name: chain for chain in PLAN.chains}
AB, AC, AA, TEXT = (CHAINS[name].signature for name in ("ab", "ac", "aa", "text"))
A, B, C = CHAINS["ab"].pools[0], CHAINS["ab"].pools[1], CHAINS["ac"].pools[1]
A_TEXT, C_TEXT = CHAINS["text"].pools
ROUTES = {"A": [[A], [A_TEXT]], "B": [[B]], "C": [[C], [C_TEXT]]}
"""As on Spark, where rows of A and of C come twice, for two keys."""
READERS = {A: [AB, AC, AA], B: [AB], C: [AC], A_TEXT: [TEXT], C_TEXT: [TEXT]}
Times = list[int | None]


def rows(stream: Stream, parts: Sequence[Times], pools: Sequence[str], *, counted: bool) -> StreamRows:
    found, number = [], 0
    for times in parts:
        columns = [
            pa.array(range(number, number + len(times)), pa.int64()),
            pa.array([1] * len(times), pa.int32()),
            pa.array(times, pa.int64()).view(pa.timestamp("us", "UTC")),
        ]
        number += len(times)
        found.append(pa.RecordBatch.from_arrays(columns, names=[column.name for column in stream.columns]))
    return StreamRows(stream, found, pools, counted)


def given_rows(parts: Mapping[str, Sequence[Times]]) -> list[StreamRows]:
    return [
        rows(STREAMS[name], parts[name], pools, counted=number == 0)
        for name in parts
        for number, pools in enumerate(ROUTES[name])
    ]


def taken(
    parts: Mapping[str, Sequence[Times]],
    marks: Mapping[str, int],
    horizon: int,
    batch: int = 1,
    *,
    numbered: bool = False,
) -> Arrivals:
    horizons = dict.fromkeys(STREAMS, horizon)
    given = BatchInput(batch=batch, rows=given_rows(parts), horizons=horizons)
    return arrivals(given, PLAN.chains, READERS, marks, numbered=numbered)


times_of = st.lists(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=5), max_size=3)
batches = st.fixed_dictionaries(dict.fromkeys("ABC", times_of))
marks_of = st.fixed_dictionaries({signature: st.integers(-1, 15) for signature in (AB, AC, AA, TEXT)})


@given(parts=batches, marks=marks_of, horizon=st.integers(10, 25))
def test_every_chain_gets_what_is_in_time_for_it(
    parts: dict[str, list[Times]], marks: dict[str, int], horizon: int
) -> None:
    arrived = taken(parts, marks, horizon)
    found: dict[str, dict[int, frozenset[str]]] = {pool: {} for pool in READERS}
    for part in arrived.parts(marks):
        for pool, parts_of_pool in part.items():
            for some, hidden_from in parts_of_pool:
                for one in some.column("id").to_pylist():
                    assert one not in found[pool], "in one part only"
                    found[pool][one] = hidden_from
    for name, routes in ROUTES.items():
        every = [time for times in parts[name] for time in times]
        sound = [(number, time) for number, time in enumerate(every) if time is not None and time <= horizon]
        for pool in (pool for pools in routes for pool in pools):
            late_for = {one: frozenset(r for r in READERS[pool] if time < marks[r]) for one, time in sound}
            in_time = {one: chains for one, chains in late_for.items() if len(chains) < len(READERS[pool])}
            assert found[pool] == in_time, "without what is late for all that read it"
        assert arrived.rows_in.get(name, 0) == len(every), "counted once, however many ways it comes"
        assert arrived.greatest.get(name) == max((time for _, time in sound), default=None)
        late = [one for some in arrived.late if some.stream == name for one in some.rows.column("id").to_pylist()]
        own = [marks[signature] for pools in routes for pool in pools for signature in READERS[pool]]
        wanted = [n for n, time in enumerate(every) if time is None or time > horizon or time < max(own)]
        assert sorted(late) == wanted, "told of once, for all its chains"


@given(first=batches, second=batches)
def test_numbers_grow_as_rows_come(first: dict[str, list[Times]], second: dict[str, list[Times]]) -> None:
    marks = dict.fromkeys((AB, AC, AA, TEXT), -1)
    last: dict[str, int] = {}
    for batch, parts in ((1, first), (2, second)):
        for part in taken(parts, marks, 99, batch, numbered=True).parts(marks):
            for pool, ((some, _),) in part.items():
                numbers = some.column(SEQUENCE).to_pylist()
                known = [last.get(pool, -1), *numbers]
                assert known == sorted(set(known))
                last[pool] = known[-1]


def test_rows_have_no_numbers_where_order_does_not_matter() -> None:
    marks = dict.fromkeys((AB, AC, AA, TEXT), -1)
    (part,) = taken({"B": [[1, 2]]}, marks, 99).parts(marks)
    ((some, _),) = part[B]
    assert some.schema.names == ["id", "k", "Ts"]


def test_rows_late_for_some_chains_are_hidden_from_these() -> None:
    marks = {AB: 5, AC: 0, AA: 6, TEXT: 9}
    (part,) = taken({"A": [[3, 5, 7]]}, marks, 99).parts(marks)
    found = [(some.column("id").to_pylist(), hidden_from) for some, hidden_from in part[A]]
    assert found == [([0], {AB, AA}), ([1], {AA}), ([2], frozenset())]
    assert part[A_TEXT] == [], "late for all"


def test_a_batch_without_rows_has_no_part() -> None:
    arrived = taken({}, {}, 99)
    assert not list(arrived.parts({}))
    assert (arrived.rows_in, arrived.greatest, arrived.late) == ({}, {}, [])
