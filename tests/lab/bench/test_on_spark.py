"""The benchmarks on Spark in small: everyone gives the right rows, and the reports say what they measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli import main
from millstream.lab.bench import overhead, peers, queries


def test_native_joins_and_millstream_give_the_same_rows(tmp_path: Path) -> None:
    told: list[str] = []
    lines = list(peers.report(20, 2, ["memory"], place=tmp_path, tell=told.append, windows=(1, 10)))
    table = [line for line in lines if line.endswith(("  right", "  WRONG"))]
    assert [line.rsplit(None, 1)[1] for line in table] == ["right"] * 4
    assert [line.split("  ")[0] for line in table] == [
        "Millstream, all windows",
        "a native join per window, memory",
        "one native join, a filter per window, memory",
        "one native join, the widest alone, memory",
    ]
    assert any("shuffle.partitions" in line for line in lines)
    assert any("checking" in line for line in told)
    assert not list(tmp_path.iterdir())


def test_many_queries_give_their_rows(tmp_path: Path) -> None:
    lines = list(queries.fifty(10, 2, count=5, rounds=1, place=tmp_path))
    assert lines[-1].endswith("as DuckDB: yes")


def test_queries_come_and_go_without_a_missed_row(tmp_path: Path) -> None:
    first, *others = queries.churn(seconds=12, batches=6, count=8, place=tmp_path)
    assert first == "8 queries added and 8 dropped in 6 batches, no restart"
    assert [line.rsplit(": ", 1)[1] for line in others if "DuckDB" in line] == ["yes", "yes"]


def test_overhead_is_told_part_by_part(tmp_path: Path) -> None:
    lines = list(overhead.report(batches=15, place=tmp_path))
    first, ours = (next(at for at, line in enumerate(lines) if said in line) for said in ("a batch, from", "our step"))
    assert [line.split()[0] for line in lines[first + 1 : ours]] == list(overhead._PARTS)
    parts = [line.split()[0] for line in lines[ours + 1 : -1]]
    assert parts == ["read", "restore", "join", "write", "spark", "commit", "deliver"]
    assert "doing nothing" in lines[-1]


@pytest.mark.parametrize(("option", "value"), [("--stores", "disk"), ("--skip", "flink")])
def test_an_unknown_peer_is_refused(option: str, value: str) -> None:
    result = CliRunner().invoke(main, ["bench", "peers", option, value])
    assert result.exit_code == 2
    assert f'"{value}"; there are' in result.output
