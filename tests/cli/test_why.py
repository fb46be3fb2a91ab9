"""`millstream why`: every condition on a pair of rows, and whether one of them was late."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from millstream.cli import main
from millstream.pipeline.directory import Directory
from millstream.pipeline.registry import Entry, Registry

SCRIPT = """\
CREATE STREAM T (Id INT, Value DOUBLE, Note STRING, Ts TIMESTAMP) WITH (path = 'in/t', time = 'Ts');
CREATE STREAM H (Id BIGINT, Value DOUBLE, Ts TIMESTAMP) WITH (path = 'in/h', time = 'Ts');
CREATE QUERY hot AS SELECT T.Id FROM T, H
WHERE T.Id = H.Id AND T.Value > 30 AND T.Note LIKE 'a%' AND H.Value < T.Value WINDOW 1 MINUTE;
CREATE QUERY three AS SELECT a.Id FROM T a, T b, T c WHERE a.Id = b.Id AND b.Id = c.Id WINDOW 1 MINUTE;
"""
LEFT = "Id = 7, Value = 31.5, Note = 'a, b''s', Ts = 2024-05-31T12:00:00Z"
RIGHT = "id = 7, Value = 20, Ts = '2024-05-31T12:00:59.5Z'"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory as a start leaves it, with a late row of T."""
    monkeypatch.chdir(tmp_path)
    directory = Directory.at("state")
    directory.make()
    Registry(directory.files.below("registry")).record(1, Entry("script", 3, text=SCRIPT))
    folder = tmp_path / "state/late/T"
    folder.mkdir(parents=True)
    noon = 1_717_156_800_000_000
    late = {
        "Id": pa.array([7, 8], pa.int32()),
        "Value": [31.5, 31.5],
        "Note": ["x", "x"],
        "Ts": pa.array([noon] * 2).cast(pa.timestamp("us", "UTC")),
        "_reason": ["older than the watermark"] * 2,
        "_chain": ["c"] * 2,
        "_text": pa.nulls(2, pa.string()),
    }
    pq.write_table(pa.table(late), folder / "T-0123abcd-00000004-000-0.parquet")
    return tmp_path


def why(left: str = LEFT, right: str = RIGHT, query: str = "hot") -> Result:
    return CliRunner().invoke(main, ["why", "state", query, "--left", left, "--right", right])


@pytest.mark.usefixtures("place")
def test_pairs_that_are_and_are_not_in_the_results(golden: Callable[[str, str], None]) -> None:
    told = []
    for name, left, right in (
        ("all holds", LEFT, RIGHT),
        ("too far apart", LEFT, RIGHT.replace("12:00:59.5", "12:01:00")),
        ("other keys", LEFT.replace("7", "8"), RIGHT),
        ("a selection", LEFT.replace("31.5", "30").replace("'a", "'b"), RIGHT),
        ("a condition between both, and a null", LEFT, RIGHT.replace("= 20", "= NULL")),
        ("a late row", LEFT.replace("'a, b''s'", "x"), RIGHT),
        ("columns that are not given", "Id = 9, Ts = 2024-05-31T12:00:00Z", RIGHT.replace("7", "9")),
    ):
        result = why(left, right)
        assert result.exit_code == 0, result.output
        told.append(f"=== {name}\n{result.stdout}")
    golden("why.txt", "\n".join(told))


@pytest.mark.parametrize(
    ("left", "query", "message"),
    [
        ("Id = 7", "hot", "the row of T has no Ts; a row is written as"),
        ("Idd = 7, Ts = 2024-05-31", "hot", 'no column "Idd" in T; it has Id, Value, Note, Ts. Did you mean "Id"?'),
        ("Id = x, Ts = 2024-05-31", "hot", "Id: 'x' cannot be CAST to INT"),
        ("nonsense", "hot", "'nonsense' is no row of T; a row is written as"),
        (LEFT, "three", "three joins 3 streams; why takes a query of two"),
        (LEFT, "hat", 'no query "hat"; the queries are hot, three. Did you mean "hot"?'),
    ],
)
@pytest.mark.usefixtures("place")
def test_what_cannot_be_asked(left: str, query: str, message: str) -> None:
    result = why(left, query=query)
    assert (result.exit_code, message in result.stderr) == (2, True), result.output
