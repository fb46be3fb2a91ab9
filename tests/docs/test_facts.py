"""What the pages say in numbers and names that can be held against the code."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from millstream.engine import judge
from millstream.engine.files import Files
from millstream.errors import ScriptError
from millstream.lab.papers.state_slice.model import holds, plan_of, route_first
from millstream.lab.workloads.windows import TABLE_4
from millstream.model import Settings
from millstream.pipeline import manifest as manifests
from millstream.pipeline.lease import Lease
from millstream.pipeline.pipeline import Pipeline
from millstream.plan import calibrated, paper
from millstream.plan.costs import route_every
from millstream.testing import Session

ROOT = Path(__file__).parents[2]
PAGE, GLOSSARY, INSTALL, PIPELINE, MERGING = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("operations", "glossary", "install", "pipeline", "merging")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_state_of_another_format_is_refused_as_told(tmp_path: Path) -> None:
    other = manifests.VERSION - 1
    (tmp_path / manifests.name_of(1)).write_text(json.dumps({"version": other, "batch": 1}))
    with pytest.raises(ScriptError) as refused:
        manifests.read(Files.at(tmp_path), 1)
    assert f"`{refused.value.found}; {refused.value.valid}`" in PAGE
    assert f"writes and reads format {manifests.VERSION}." in PAGE


def test_every_reason_for_a_late_row_has_its_line() -> None:
    reasons = re.findall(r'set_aside\("([^"]+)"', inspect.getsource(judge))
    assert len(reasons) == 4
    assert all(f"\n| `{reason}` |" in PAGE for reason in reasons)


def test_numbers_of_the_pages() -> None:
    lease = inspect.signature(Lease).parameters
    assert f"renews it every {lease['renew'].default:.0f} seconds" in PAGE
    assert f"younger than {lease['expire'].default:.0f} seconds" in PAGE
    assert f"divides the keys: {Settings().groups:,} if the script" in PAGE
    assert f": {Settings().groups:,} groups by default" in GLOSSARY
    assert manifests.KEPT == 3
    assert "the state of the last three batches" in PAGE


COLUMNS = {
    "k INT": (4, lambda n, rng: rng.integers(0, 1_000, n).astype(np.int32)),
    "v DOUBLE": (8, lambda n, rng: rng.random(n)),
    "s STRING": (4 + 10, lambda n, _: ["ten bytes."] * n),
    "f BOOLEAN": (1 / 8, lambda n, _: [True, False] * (n // 2)),
}


@pytest.mark.parametrize("order", ["eager", "strict"])
def test_the_formula_for_the_bytes_of_a_row(order: str) -> None:
    """Columns and their index; what small segments keep beside it is gone from these, which are large."""
    session = Session(
        f"CREATE STREAM A ({', '.join(COLUMNS)}, Ts TIMESTAMP) WITH (time = 'Ts');"
        "CREATE STREAM B (k INT, Ts TIMESTAMP) WITH (time = 'Ts');"
        f"SET order = '{order}';"
        "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k AND A.v > 0.5 WINDOW 1 HOUR;"
        "CREATE QUERY r AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 HOUR;"
    )
    count, rng = 100_000, np.random.default_rng(1)
    times = pa.array(1_700_000_000_000_000 + np.arange(count)).cast(pa.timestamp("us", "UTC"))
    columns = {name.split()[0]: pa.array(make(count, rng)) for name, (_, make) in COLUMNS.items()}
    session.feed({"A": pa.table({**columns, "Ts": times})})
    session.feed({"B": pa.table({"k": pa.array([1], pa.int32()), "Ts": times[:1]})})
    (segment,) = session.engine.pools()[0].segments
    fixed = sum(width for width, _ in COLUMNS.values()) + 8 + (8 if order == "strict" else 0)
    index, selection, nulls = 16 * 1_000 / count, 1, 2 / 8  # two of the columns are no numbers
    assert fixed + index + selection <= segment.nbytes / count <= fixed + index + selection + nulls + 0.01


def test_what_a_sink_has_refused_stays_in_the_outbox(folder: Path) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("full")

    said: list[str] = []
    script = (folder / "clicks.sql").read_text()
    pipeline = Pipeline("clicks", "state/clicks", script=script, tell=said.append)
    taken: list[int] = []
    join = "FROM Impressions I, Clicks C WHERE I.AdId = C.AdId WINDOW 1 SECOND"
    pipeline.query("refused", f"SELECT I.AdId {join}", sink=refuse)
    pipeline.query("taken", f"SELECT I.AdId {join}", sink=lambda _, rows: taken.append(rows.num_rows))
    pipeline.drain()
    outbox = folder / "state/clicks/outbox"
    assert "query refused is stopped: callback: ValueError: full" in [one.splitlines()[0] for one in said]
    assert list((outbox / "refused").glob("refused-*.parquet"))
    assert sum(taken) > 0
    assert not list((outbox / "taken").iterdir())
    for path in outbox.parent.iterdir():
        assert f"\n| `{path.name}{'/' if path.is_dir() else ''}` |" in PIPELINE


def test_words_of_the_glossary_are_in_use() -> None:
    """Each is found in another page or in the code: in plural or singular, as people write it."""
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    others = " ".join(path.read_text(encoding="utf-8").lower() for path in sources if path.name != "glossary.md")
    others = re.sub(r"[\s_]+", " ", others)
    lines = re.findall(r"^\| (\*\*.*?) \|", GLOSSARY, re.MULTILINE)
    assert lines == sorted(lines, key=str.lower)
    words = [word for line in lines for word in re.findall(r"\*\*(.+?)\*\*", line)]
    assert [word for word in words if word != "d" and word.lower() not in others] == []


def test_versions_of_the_install_page() -> None:
    (pinned,) = re.findall(r"^pyspark==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"**{pinned} is the version that is tested**" in INSTALL
    assert f"`pyspark=={pinned}`" in INSTALL
    assert "pyspark>=4.1,<5" in PROJECT["dependencies"]
    assert "4.1 or newer, below 5" in INSTALL
    assert PROJECT["requires-python"] == ">=3.11"
    for extra in PROJECT["optional-dependencies"]:
        assert f"`CLONE[{extra}]`" in INSTALL


@pytest.mark.parametrize("line", re.findall(r"^\| ((?:as printed|router|calibrated).*) \|$", MERGING, re.MULTILINE))
def test_which_plans_of_figure_19_hold(line: str) -> None:
    """The table of docs/merging.md, by the planner."""
    cost, *told = (cell.strip() for cell in line.split("|"))
    overhead = re.search(r"C_sys (?:=|below) (\d+)", cost)
    c_sys = int(overhead[1]) - ("below" in cost) if overhead else 0
    costs = calibrated() if overhead is None else paper(c_sys, route_first if "router stops" in cost else route_every)
    for windows, words in zip(TABLE_4, told, strict=True):
        assert words.startswith("holds") == holds(windows, plan_of(windows, costs)), windows
