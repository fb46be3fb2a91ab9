"""The contracts between rooms hold, and a leak is caught."""

from __future__ import annotations

import ast
import re
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


@pytest.mark.parametrize("room", ["engine", "pipeline"])
def test_every_module_has_its_test_file(room: str) -> None:
    """So that a failure names its place; a package has one file, or a folder of its name."""
    source, tests = ROOT / "src/millstream" / room, ROOT / "tests" / room
    modules = {
        path.stem
        for path in source.iterdir()
        if not path.name.startswith("_") and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    without = {name for name in modules if not (tests / f"test_{name}.py").exists() and not (tests / name).is_dir()}
    assert not without


POSITIONAL = 3


def by_position(record: ast.ClassDef) -> list[str]:
    """The fields of a dataclass that may be given by position; none for other classes."""
    decorators = [ast.unparse(one) for one in record.decorator_list]
    if not any(one.startswith("dataclass") for one in decorators) or any("kw_only=True" in one for one in decorators):
        return []
    found = []
    for one in record.body:
        if isinstance(one, ast.AnnAssign):
            if ast.unparse(one.annotation) == "KW_ONLY":
                break
            if one.value is None or "init=False" not in ast.unparse(one.value):
                found.append(ast.unparse(one.target))
    return found


def test_records_of_the_pipeline_take_few_fields_by_position() -> None:
    files = [*(ROOT / "src/millstream/pipeline").glob("*.py"), ROOT / "src/millstream/engine/chain_manifest.py"]
    classes = [
        node
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert sum(bool(by_position(one)) for one in classes) > 5, "some are found"
    assert [one.name for one in classes if len(by_position(one)) > POSITIONAL] == []


def test_contributing_names_what_is_there() -> None:
    """Every file and folder that the guide names, wherever it names it from."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/.]+/[\w.]*|\w+\.py)`", text.split("## What to run")[0]))
    below = (ROOT, ROOT / "src/millstream", ROOT / "src/millstream/engine", ROOT / "src/millstream/lab")
    assert len(named) > 40
    assert [name for name in sorted(named) if not any((folder / name).exists() for folder in below)] == []
