"""A batch of a shard: what is not said means nothing special, and what comes out is made as it is asked for."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pyarrow as pa
import pytest

from millstream.compile import compile_script
from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.batch import BatchInput, StreamRows
from millstream.engine.policies import make_policy
from millstream.engine.shard import Shard

PLAN = compile_script(
    "CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts');"
    "CREATE QUERY q AS SELECT x.Ts AS a, y.Ts AS b FROM A x, A y WHERE x.k = y.k WINDOW 1 SECOND;"
)
(STREAM,) = PLAN.script.streams
POOLS = [pool.name for pool in PLAN.pools]


def shard() -> Shard:
    return Shard(PLAN, since={"q": 1}, policy=make_policy("lwo"), strict=False)


def rows(count: int) -> pa.RecordBatch:
    times = pa.array([0] * count, pa.int64()).view(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([pa.array([1] * count, pa.int32()), times], names=["k", "Ts"])


def test_a_batch_of_nothing_is_nothing() -> None:
    given = BatchInput(batch=1)
    assert (given.rows, given.watermarks, given.horizons, given.budget, given.finish) == ((), {}, {}, UNBOUNDED, False)
    output = shard().run_batch(given)
    assert (list(output.results), output.rows_in, output.late, output.greatest) == ([], {}, [], {})


def test_a_batch_without_rows_does_what_waits() -> None:
    one = shard()
    given = BatchInput(batch=1, rows=[StreamRows(STREAM, [rows(3)], POOLS)], budget=Budget(units=0))
    assert not list(one.run_batch(given).results)
    found = list(one.run_batch(BatchInput(batch=2)).results)
    assert [(queries, rows.num_rows, arrived) for queries, rows, arrived in found] == [(["q"], 9, {1: 9})], (
        "with the batch in which the probing tuples came"
    )


def test_rows_count_unless_it_is_said_that_they_do_not() -> None:
    for counted, wanted in ((True, {"A": 3}), (False, {})):
        given = StreamRows(STREAM, [rows(3)], POOLS, counted) if not counted else StreamRows(STREAM, [rows(3)], POOLS)
        output = shard().run_batch(BatchInput(batch=1, rows=[given]))
        assert output.rows_in == wanted
        assert output.greatest == {"A": 0}, "whatever counts them"
        assert sum(some.rows.num_rows for some in output.results) == 9


def test_what_a_batch_is_given_does_not_change() -> None:
    given: Any = BatchInput(batch=1)
    with pytest.raises(FrozenInstanceError):
        given.batch = 2
