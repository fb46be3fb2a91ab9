"""A run goes on where it can: what fails by chance is tried again, what fails for good stops alone or ends it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millstream.errors import PipelineFailed
from millstream.model.functions import Function, function
from millstream.model.types import DOUBLE
from millstream.testing import run
from two_streams import START, STREAMS


def batches(count: int) -> list[dict[str, list[dict[str, Any]]]]:
    return [
        {
            name: [{"k": n % 3, "v": n + shift, "Ts": START + timedelta(seconds=10 * batch)} for n in range(9)]
            for name, shift in (("A", 0.0), ("B", 0.5))
        }
        for batch in range(count)
    ]


def script_of(times: int) -> str:
    queries = "".join(
        f"CREATE QUERY q{n} AS SELECT A.k, flaky(A.v) AS av, B.v AS bv FROM A, B WHERE A.k = B.k WINDOW {n} SECONDS;"
        for n in (5, 30)
    )
    return STREAMS + queries + f"SET order = '{'eager' if times % 2 else 'strict'}';"


def flaky_function(mark: Path, times: int) -> Any:
    """From the second batch on raises so many times, but never twice in a row: nobody is found who fails again."""
    place = str(mark)

    @function("DOUBLE", "DOUBLE")
    def flaky(value: np.ndarray) -> np.ndarray:
        from pathlib import Path

        done = Path(place)
        calls = int(done.read_text()) if done.exists() else 0
        if len(value) > 40:  # more pairs than the first batch has
            done.write_text(str(calls + 1))
            if calls % 2 == 0 and calls < 2 * times:
                raise ValueError("out of sorts")
        return value

    return flaky


@pytest.mark.parametrize("times", [1, 2])
def test_a_failure_that_does_not_recur_loses_nothing(mill: Callable[..., Any], tmp_path: Path, times: int) -> None:
    rows = batches(3)
    script = script_of(times)
    found = mill(script, functions={"flaky": flaky_function(tmp_path / "mark", times)}, settings={"slots": "1"})
    for batch in rows:
        found.put(batch)
    found.pipeline.drain()
    tries = [f"batch 2 failed, try {n + 1} of 3: ValueError: out of sorts" for n in range(times)]
    assert [said.partition("\n")[0] for said in found.said] == tries
    assert all('raise ValueError("out of sorts")' in said for said in found.said), "with the line that raised it"
    plain = {"flaky": flaky_function(tmp_path / "never", 0)}
    expected = run(script, {name: [batch[name] for batch in rows] for name in "AB"}, functions=plain)
    for name, table in expected.items():
        assert sorted(map(repr, found.results(name))) == sorted(map(repr, table.to_pylist()))


def test_a_batch_that_goes_on_failing_ends_the_run_and_keeps_what_was(mill: Callable[..., Any], tmp_path: Path) -> None:
    rows = batches(2)
    script, flaky = script_of(1), flaky_function(tmp_path / "mark", 3)
    found = mill(script, functions={"flaky": flaky}, settings={"slots": "1"})
    found.put(rows[0])
    found.pipeline.drain()
    found.put(rows[1])
    again = mill(script, functions={"flaky": flaky}, settings={"slots": "1"})
    with pytest.raises(PipelineFailed, match="a batch failed 3 times, and no query is to blame: ValueError: out of"):
        again.pipeline.drain()
    mended = mill(script, functions={"flaky": flaky}, settings={"slots": "1"})
    mended.pipeline.drain()
    expected = run(script, {name: [batch[name] for batch in rows] for name in "AB"}, functions={"flaky": flaky})
    for name, table in expected.items():
        assert sorted(map(repr, mended.results(name))) == sorted(map(repr, table.to_pylist()))


def test_a_query_that_cannot_be_built_stops_alone(mill: Callable[..., Any]) -> None:
    rows = batches(1)
    hollow = Function("hollow", (DOUBLE,), lambda _: DOUBLE)  # it has no body
    plain = "CREATE QUERY plain AS SELECT A.k, B.v FROM A, B WHERE A.k = B.k WINDOW 5 SECONDS;"
    broken = "CREATE QUERY broken AS SELECT hollow(A.v) AS x FROM A, B WHERE A.k = B.k WINDOW 5 SECONDS;"
    found = mill(STREAMS + plain + broken, functions={"hollow": hollow})
    found.put(rows[0])
    found.pipeline.drain()
    assert found.said == ["query broken is stopped: cannot be run: hollow has no body"]
    expected = run(STREAMS + plain, {name: [batch[name] for batch in rows] for name in "AB"})["plain"]
    assert sorted(map(repr, found.results("plain"))) == sorted(map(repr, expected.to_pylist()))
