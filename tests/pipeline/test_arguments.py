"""What a caller passes is refused when it is passed, in four parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.errors import ScriptError
from millstream.pipeline import Pipeline
from two_streams import PAIR, STREAMS

WINDOW = f"{PAIR} WINDOW 1 MINUTE"


def pipeline(folder: Path) -> Pipeline:
    return Pipeline("p", folder / "state", script=STREAMS)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"select": None}, "the SELECT of query q is a NoneType"),
        ({"path": 5}, "the path of query q is a int"),
        ({"sink": 5}, "the sink of query q is a int"),
        ({"sink": print, "path": "out"}, "query q has a sink and path"),
        ({"sink": print, "Format": "csv"}, "query q has a sink and Format"),
        ({"select": f"{WINDOW}; SET order = 'strict'"}, 'several statements to add as "q"'),
        ({"select": f"{WINDOW}; CREATE QUERY r AS {WINDOW}"}, 'several statements to add as "q"'),
    ],
)
def test_a_query(arguments: dict[str, Any], found: str, tmp_path: Path) -> None:
    mill = pipeline(tmp_path)
    with pytest.raises(ScriptError) as error:
        mill.query("q", **{"select": WINDOW, **arguments})
    assert error.value.found == found
    assert mill.queries() == []


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    mill = pipeline(tmp_path)
    mill.query("q", WINDOW)
    with pytest.raises(ScriptError, match='query "q" is there already'):
        mill.query("Q", WINDOW)
    assert mill.queries() == ["q"]


def test_texts_and_frames(tmp_path: Path) -> None:
    script: Any = None
    with pytest.raises(ScriptError, match="the script is a NoneType"):
        Pipeline("p", tmp_path, script=script)
    with pytest.raises(ScriptError, match="the script is a NoneType"):
        pipeline(tmp_path).sql(script)
    with pytest.raises(ScriptError, match="stream C is a NoneType"):
        pipeline(tmp_path).stream("C", script, time="Ts")
    with pytest.raises(ScriptError, match="style = 'xml'"):
        pipeline(tmp_path).explain("xml")
