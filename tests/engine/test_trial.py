"""What the engine cannot evaluate is refused before it runs; a constant that fails is a matter of rows."""

from __future__ import annotations

import pytest

from millstream.compile import compile_script
from millstream.engine import trial
from millstream.engine.trial import try_out
from millstream.errors import InternalError, ScriptErrors
from millstream.model.functions import function

STREAMS = "".join(f"CREATE STREAM {name} (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB")


def script(condition: str) -> str:
    return f"{STREAMS} CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k AND {condition} WINDOW 1 SECOND;"


@pytest.mark.parametrize(
    "condition",
    [
        "CAST('x' AS INT) = A.k",
        "2147483647 + 1 = A.k",
        "A.k IN (1, 2147483647 + 1)",
        "(A.k = 1 OR CAST('x' AS INT) = 1)",
        "(FALSE AND CAST('x' AS INT) = 1)",
    ],
)
def test_a_constant_that_fails_is_no_reason_to_refuse_a_script(condition: str) -> None:
    try_out(compile_script(script(condition)))


def test_what_has_no_way_to_be_evaluated_is_refused_with_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise InternalError("no way to evaluate it")

    monkeypatch.setattr(trial, "compile_expr", none)
    with pytest.raises(ScriptErrors, match=r"query 'q', .*: a condition cannot be evaluated \(no way to evaluate it\)"):
        try_out(compile_script(script("A.s = 'x'")))


def test_users_functions_are_not_called() -> None:
    @function("BOOLEAN", "STRING")
    def loud(_: object) -> object:
        raise AssertionError("called")

    try_out(compile_script(script("loud(A.s)"), functions={"loud": loud}), {"loud": loud})
