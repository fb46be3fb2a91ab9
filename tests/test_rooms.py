"""The contracts between rooms hold, and a leak is caught."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        LINT, cwd=folder, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(folder / "src")}
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    result = lint(copy)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("room", "leak"),
    [
        ("errors.py", "import millstream.model"),
        ("model/interval.py", "import pyspark"),
        ("model/interval.py", "import millstream.plan"),
        ("sql/text.py", "import millstream.plan"),
        ("sql/text.py", "import pyspark.sql"),
        ("plan/nodes.py", "import millstream.sql"),
        ("plan/nodes.py", "import sqlglot"),
        ("plan/nodes.py", "import pyspark"),
        ("plan/nodes.py", "import millstream.lab"),
        ("lab/papers/shared_join/model.py", "import millstream.lab.papers.op_sched"),
        ("lab/workloads/windows.py", "import millstream.lab.bench"),
    ],
)
def test_a_leak_fails(copy: Path, room: str, leak: str) -> None:
    path = copy / "src/millstream" / room
    path.write_text(path.read_text(encoding="utf-8") + f"\n{leak}\n", encoding="utf-8")
    result = lint(copy)
    assert result.returncode == 1
    assert "BROKEN" in result.stdout


def test_the_planning_rooms_load_without_spark() -> None:
    code = "import sys, millstream.compile; sys.exit(any(m in sys.modules for m in ('pyspark', 'py4j', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
