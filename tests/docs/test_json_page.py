"""docs/json.md has the fields of real output, no more and no fewer, with their types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from millstream.cli import main
from millstream.engine.chain_manifest import ChainManifest
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.model.settings import Settings
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.pipeline.measuring import Ratio, RunStatistics
from millstream.pipeline.registry import Entry
from millstream.pipeline.shedding import Shedder

PAGE = (Path(__file__).parents[2] / "docs/json.md").read_text(encoding="utf-8")
TYPES = {
    "whole": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "text": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
HIDDEN = SegmentEntry(
    number=1, name="s", batch=1, reach=1, rows=1, nbytes=1, first=1, last=1, hidden_from=("chain",), stamps=(), groups=6
)
RARE = Manifest(
    slots={
        0: SlotManifest(
            "token",
            ShardManifest(
                spilled={(1,): 6},
                pools={"pool": PoolManifest(segments=(HIDDEN,))},
                chains={"chain": ChainManifest(floors={"pool": 1})},
            ),
        )
    }
)
"""Rows that are late for some chains only, a chain that has come later, and groups that have been spilled."""
STATISTICS = RunStatistics(
    rates={"A": Ratio(1, 2)}, arrivals={"A": Ratio(1, 2)}, passed={"p": Ratio(1, 2)}, joins={"c": Ratio(1, 2)}
).to_json()
SHED = {"rows": {"A": 1}, "by_keys": True, "gone_before_us": {"pool": 1}, "counted": {"q": [1.0, 2.0]}}
"""As the test of `shedding` finds them saved: this run sheds nothing."""
LATER = "CREATE QUERY later AS SELECT I.AdId FROM Impressions I, Clicks C WHERE I.AdId = C.AdId WINDOW 1 SECOND"
MORE = """
CREATE QUERY wrong AS
SELECT CAST(I.Country AS INT) AS n FROM Impressions I, Clicks C WHERE I.AdId = C.AdId WINDOW 1 SECOND;
CREATE QUERY outside WITH (path = 'out') AS
SELECT I.AdId FROM Impressions I, Clicks C WHERE I.AdId = C.AdId WINDOW 1 SECOND;
CREATE QUERY together WITH (results = 'shared') AS
SELECT I.AdId FROM Impressions I, Clicks C WHERE I.AdId = C.AdId WINDOW 1 SECOND;
SET budget = '1 microsecond';
SET order = 'strict';
SET warn_late = 0.001;
"""
"""So that nothing the page tells of is empty: a query that fails, a folder outside, shared results, units that wait."""


def documented(heading: str) -> dict[str, str]:
    """Field and type, in the first tables below a heading."""
    section = re.split(r"^#+ ", PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    found = dict(re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \|", section, re.MULTILINE))
    assert found, heading
    return found


def flat(value: Any, known: dict[str, str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with the path the page has for it."""
    if isinstance(value, dict):
        anything = any(one.startswith(f"{path}.*".lstrip(".")) for one in known)
        for key, inner in value.items():
            yield from flat(inner, known, f"{path}.{'*' if anything else key}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from flat(inner, known, f"{path}[]")
    else:
        yield path, value


def hold(heading: str, *outputs: Any) -> None:
    """The page has just the fields of these, and each value is of its type."""
    known = documented(heading)
    found = [item for output in outputs for item in flat(output, known)]
    assert {path for path, _ in found} == set(known)
    for path, value in found:
        assert any(TYPES[kind](value) for kind in known[path].split(" or ")), (path, value, known[path])


def invoke(*args: str) -> str:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def ran(folder: Path) -> list[Any]:
    """The lines of a run that has had everything happen to it."""
    script = folder / "clicks.sql"
    script.write_text(script.read_text() + MORE)
    result = CliRunner().invoke(main, ["run", "clicks.sql", "--drain", "--json"])
    assert result.exit_code == 1, "a query is stopped"
    assert "stopped by an error: wrong" in result.stderr, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_json_of_a_run_and_of_its_directory(ran: list[Any], folder: Path) -> None:
    less = {"shed": {"A": 1}, "reaches": {"A": 1.5}, "completeness": {"q": 0.5}}
    hold("millstream run --json", *ran, less, {"summary": {"shed": {"A": 1}}})
    place = folder / "state/clicks"
    written = [json.loads(path.read_text()) for path in place.glob("manifest/*.json")]
    settings = Settings(overload="shed_keys")
    rare = replace(RARE, statistics=STATISTICS, shed=Shedder(settings, SHED).to_json())
    hold("manifest/&lt;batch&gt;.json", *written, json.loads(json.dumps({**written[0], **rare.to_json()})))
    entries = [json.loads(path.read_text()) for path in place.glob("registry/*.json")]
    with_callback = {**entries[0], **Entry("add", 1, query="q", callbacks=("q",)).to_json()}
    hold("registry/&lt;number&gt;.json", *entries, json.loads(json.dumps(with_callback)))
    hold("results/&lt;query&gt;/manifest.json", json.loads((place / "results/together/manifest.json").read_text()))
    hold("_millstream.mark", json.loads((folder / "out/_millstream.mark").read_text()))

    shown = CliRunner().invoke(main, ["status", "state/clicks", "--json"])
    assert shown.exit_code == 3, "it does not run"
    hold("millstream status --json", json.loads(shown.stdout), {"process": 1})

    explained = json.loads(invoke("explain", "state/clicks", "--format", "json"))
    rare = {"changes": [{"batch": 1, "why": "", "effect": ""}]}
    hold("millstream explain DIRECTORY --format json", {"measured": explained["measured"]}, {"measured": rare})

    (folder / "later.sql").write_text(LATER)
    invoke("query", "add", "state/clicks", "later.sql")
    invoke("query", "drop", "state/clicks", "outside")
    listed = json.loads(invoke("query", "list", "state/clicks", "--json"))
    hold("millstream query list --json", listed)
    states = {one["state"] for one in listed["queries"]}
    assert states == set(re.findall(r"`(\w+)`[:]", PAGE.partition("`queries[].state`")[2].partition("\n")[0]))


@pytest.mark.usefixtures("folder")
def test_the_json_of_explain() -> None:
    explained = json.loads(invoke("explain", "clicks.sql", "--format", "json"))
    hold("millstream explain --format json", explained)
    (chain,) = explained["chains"]
    shown = invoke("explain", "clicks.sql")
    (line,) = (line for line in shown.splitlines() if "this plan" in line)
    assert "ms CPU/s" in shown
    assert f"{chain['memory_rows']:,} " in line
    assert f" {chain['cpu_cost']:.3g} " in line
