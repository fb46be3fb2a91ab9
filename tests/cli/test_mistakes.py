"""Fifteen typical mistakes of a new user, and what they read: golden/mistakes.txt, word for word. None starts Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli import main

GOOD = """\
CREATE STREAM Shown (AdId BIGINT, Country STRING, Ts TIMESTAMP) WITH (path = 'in/shown', time = 'Ts');
CREATE STREAM Clicks (AdId BIGINT, Price DOUBLE, Ts TIMESTAMP) WITH (path = 'in/clicks', time = 'Ts');
CREATE QUERY q AS
SELECT S.AdId, C.Price FROM Shown S JOIN Clicks C ON S.AdId = C.AdId WINDOW 1 MINUTE;
"""


@dataclass(frozen=True)
class Mistake:
    """A change to a good script, or another command."""

    name: str
    old: str = ""
    new: str = ""
    command: tuple[str, ...] = ("run", "s.sql", "--drain")


MISTAKES = (
    Mistake("a misspelt option", "path = 'in/shown', time", "path = 'in/shown', delya = '5 s', time"),
    Mistake("a misspelt format", "path = 'in/shown', time", "format = 'parqet', path = 'in/shown', time"),
    Mistake("a misspelt column", "C.Price", "C.Prize"),
    Mistake("a misspelt stream", "FROM Shown S", "FROM Show S"),
    Mistake("no time column", ", time = 'Ts');\nCREATE STREAM", ");\nCREATE STREAM"),
    Mistake("epoch numbers as time", "Country STRING, Ts TIMESTAMP", "Country STRING, Ts BIGINT"),
    Mistake("no window", " WINDOW 1 MINUTE", ""),
    Mistake("text compared with a number", "C ON S.AdId = C.AdId", "C ON S.Country = C.AdId"),
    Mistake("an aggregate", "SELECT S.AdId, C.Price", "SELECT count(S.AdId)"),
    Mistake("a folder that is not there", "in/shown", "in/show"),
    Mistake("a file instead of a folder", "in/shown", "in/text/a.csv"),
    Mistake("csv files read as parquet", "in/shown", "in/text"),
    Mistake("results among the input", "QUERY q AS", "QUERY q WITH (path = 'in/clicks') AS"),
    Mistake("a function nobody registered", "SELECT S.AdId", "SELECT shorten(S.Country)"),
    Mistake("a directory without a pipeline", command=("query", "list", "state/s")),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("shown", "clicks", "text"):
        (tmp_path / "in" / name).mkdir(parents=True)
    (tmp_path / "in/text/a.csv").write_text("1,NO\n")
    return tmp_path


def test_what_a_new_user_reads(folder: Path, golden: Callable[[str, str], None]) -> None:
    told = []
    for mistake in MISTAKES:
        assert GOOD.count(mistake.old) >= 1
        (folder / "s.sql").write_text(GOOD.replace(mistake.old, mistake.new, 1) if mistake.old else GOOD)
        result = CliRunner().invoke(main, list(mistake.command))
        assert result.exit_code == 2, (mistake.name, result.output)
        assert result.stdout == ""
        assert not (folder / "state").exists(), "nothing is left behind"
        told.append(f"=== {mistake.name}\n{result.stderr}")
    assert len(told) == 15
    golden("mistakes.txt", "\n".join(told).replace(str(folder), "HERE"))


def test_the_script_is_right_before_it_is_broken(folder: Path) -> None:
    (folder / "s.sql").write_text(GOOD)
    assert CliRunner().invoke(main, ["check", "s.sql"]).exit_code == 0
