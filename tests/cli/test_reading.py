"""`millstream check --read`, as a person sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli import main

SCRIPT = """\
CREATE STREAM T (Id INT, Ts TIMESTAMP) WITH (format = 'csv', path = 'in/t', time = 'Ts');
CREATE STREAM H (Id INT, Ts TIMESTAMP) WITH (format = 'csv', path = 'in/h', time = 'Ts');
CREATE QUERY q AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE;
"""


def test_what_the_sources_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[..., None]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("t", "1,2024-05-31T12:00:00Z\n2,2024-05-31T12:00:09Z\n"), ("h", "1,1717156800000\n")):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "a.csv").write_text(text)
    (tmp_path / "s.sql").write_text(SCRIPT)
    shown = CliRunner().invoke(main, ["check", "--read", "s.sql"])
    assert shown.exit_code == 0
    (tmp_path / "s.sql").write_text(SCRIPT.replace("in/h", "in/nowhere"))
    refused = CliRunner().invoke(main, ["check", "--read", "s.sql"])
    assert refused.exit_code == 2
    golden("check_read.txt", f"{shown.output}\n{refused.output}".replace(str(tmp_path), "HERE"))
