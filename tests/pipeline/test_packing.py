"""What travels to workers arrives by value, and what cannot travel is refused before anything starts."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from millstream.errors import ScriptError
from millstream.model.functions import function
from millstream.pipeline.packing import check_sendable, packed, unpacked

CALL = """
import sys
from pathlib import Path
import numpy as np
from millstream.pipeline.packing import unpacked
scaled = unpacked(Path(sys.argv[1]).read_bytes())
print(scaled.call(np.array([1.0, 2.0])).tolist())
"""


def test_a_function_works_where_its_module_is_not(tmp_path: Path) -> None:
    """With all it holds on to, in another process that cannot import this file."""
    factor = np.float64(3.0)

    def helper(value: np.ndarray) -> np.ndarray:
        return value * factor

    @function("DOUBLE", "DOUBLE")
    def scaled(value: np.ndarray) -> np.ndarray:
        return helper(value)

    check_sendable({"scaled": scaled})
    (tmp_path / "packed").write_bytes(packed(scaled))
    command = [sys.executable, "-c", CALL, str(tmp_path / "packed")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "[3.0, 6.0]\n", done.stderr


@pytest.mark.parametrize(
    "held", [np.frompyfunc(lambda value: value, 1, 1), threading.Lock(), (one for one in ())], ids=lambda one: type(one)
)
def test_what_cannot_travel_is_refused_by_name(held: object) -> None:
    @function("DOUBLE", "DOUBLE")
    def stuck(value: np.ndarray) -> np.ndarray:
        return value if held is None else -value

    @function("DOUBLE", "DOUBLE")
    def free(value: np.ndarray) -> np.ndarray:
        return value

    with pytest.raises(
        ScriptError, match=r"function stuck cannot be sent to Spark's workers \(.+\); a function may use .* Make what"
    ):
        check_sendable({"free": free, "stuck": stuck})


def test_values_come_back_equal() -> None:
    what = {"a": (1, 2.5, None), "b": [b"\x00\xff", "ü"], 7: frozenset({1, 2})}
    assert unpacked(packed(what)) == what
