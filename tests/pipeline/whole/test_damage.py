"""Every kind of file in a pipeline's directory, damaged in every way, then one more file of rows and a restart.

The committed results are those of a run that was never damaged; or, where nothing else holds what was lost, an error
says what is wrong, in four parts. Never are rows lost, doubled or wrong, and never is there another exception. One run
is made once; every case begins from a copy of what it left. A few cases run here, all of them with `make damage`
(MILLSTREAM_DAMAGE=all).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from millstream.errors import MillstreamError, ScriptError
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.registry import Registry
from millstream.pipeline.sealed import unsealed
from millstream.testing import run
from two_streams import PAIR, START, Rows

FILES = 12
STREAMS = "\n".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', delay = '4 seconds');" for name in "AB"
)
SCRIPT = f"""{STREAMS}
SET order = 'strict'; SET slots = 2;
CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;
CREATE QUERY r WITH (results = 'shared') AS {PAIR} WINDOW 3 SECONDS;
CREATE QUERY s WITH (results = 'shared') AS {PAIR} WINDOW 2 SECONDS;
"""


def rows(*items: tuple[int, float, int]) -> Rows:
    """Key, value and second."""
    return [{"k": key, "v": value, "Ts": START + timedelta(seconds=second)} for key, value, second in items]


def in_order(found: Rows) -> list[str]:
    return sorted(map(repr, found))


def batch(number: int) -> dict[str, Rows]:
    """Ten rows a stream; in the third file one of A is far too late."""
    late = [(1, 999.0, 1)] if number == 2 else []
    return {
        name: rows(*((n % 5, number * 10 + n + shift, number * 10 + n) for n in range(10)), *(late if shift else []))
        for name, shift in (("A", 0.5), ("B", 0.0))
    }


class Site:
    """The folder of one run, put back as that run left it before every case."""

    def __init__(self, place: Path, mill_at: Callable[..., Any]) -> None:
        self.mill_at = mill_at
        self.place, self.state, self.kept = place, place / "state", place / "kept"
        self.first_run()
        shutil.copytree(self.state, self.kept, symlinks=True)
        mill_at(place, SCRIPT).put(batch(FILES))
        self.expected = self.outcome(self.restarted())

    def first_run(self) -> None:
        """Ends right after the last file, with rows held back and units to come, and a change that waits."""
        seen = []

        def on_batch(progress: BatchProgress) -> None:
            seen.append(progress)
            if sum(sum(one.rows_in.values()) for one in seen) == 20 * FILES + 1:
                mill.pipeline.ask_to_stop()

        mill = self.mill_at(self.place, SCRIPT)
        mill.pipeline._on_batch = on_batch
        for number in range(FILES):
            mill.put(batch(number))
        mill.pipeline.drain()
        ticket = Registry(mill.pipeline.directory.files.below("registry")).ask(
            "add", "late_comer", f"CREATE QUERY late_comer AS {PAIR} WINDOW 1 SECOND"
        )
        assert ticket

    def reset(self) -> None:
        shutil.rmtree(self.state)
        shutil.copytree(self.kept, self.state)

    def restarted(self) -> Any:
        mill = self.mill_at(self.place, SCRIPT)
        mill.pipeline.drain()
        return mill

    def outcome(self, mill: Any) -> dict[str, Any]:
        found: dict[str, Any] = {name: in_order(mill.results(name)) for name in "qrs"}
        late = [row for path in sorted(self.state.glob("late/*/*.parquet")) for row in pq.read_table(path).to_pylist()]
        return {**found, "late": in_order(late)}

    def newest(self, back: int = 0) -> Path:
        return sorted((self.state / "manifest").glob("*.json"))[-1 - back]

    def saved(self, back: int = 0) -> dict[str, Any]:
        path = self.newest(back)
        return unsealed(path.read_bytes(), str(path))

    def segment(self, ending: str, which: Callable[[list[str]], str] = max) -> Path:
        """Of the last batch, which can be gone back behind, or one that all kept manifests name."""
        pools = [pool for slot in self.saved()["slots"].values() for pool in slot["pools"]]
        name = which([entry["name"] for pool in pools for entry in pool["segments"]])
        return self.state / "segments" / f"{name}{ending}"

    def held(self) -> Path:
        chains = [chain for slot in self.saved()["slots"].values() for chain in slot["chains"]]
        name = next(entry["name"] for chain in chains for entry in chain["held"])
        return self.state / "segments" / f"{name}.arrow"

    def staged(self) -> Path:
        """The last batch as after a crash before its results were published."""
        (self.state / "manifest" / "published").write_text(str(self.saved(1)["batch"]))
        for output in self.saved()["outputs"]:
            staged = Path(output["folder"]) / output["staged"]
            places = {Path(final["folder"]) / final["name"] for final in output["finals"]}
            for number, place in enumerate(sorted(places)):
                if number:
                    place.unlink()
                else:
                    place.rename(staged)
        return staged

    def spark(self, folder: str, back: int = 0) -> Path:
        found = [path for path in (self.state / "spark" / folder).iterdir() if path.name.isdigit()]
        return sorted(found, key=lambda path: int(path.name))[-1 - back]


KINDS: dict[str, Callable[[Site], Path]] = {
    "newest manifest": lambda site: site.newest(),
    "two newest manifests": lambda site: (site.newest().unlink(), site.newest())[1],
    "second manifest": lambda site: site.newest(1),
    "third manifest": lambda site: site.newest(2),
    "note of what is published": lambda site: site.state / "manifest" / "published",
    "registry entry": lambda site: site.state / "registry" / "000001.json",
    "copy of a registry entry": lambda site: site.state / "registry" / "copies" / "000001.json",
    "inbox entry": lambda site: next((site.state / "registry" / "inbox").iterdir()),
    "rows of a segment": lambda site: site.segment(".arrow"),
    "index of a segment": lambda site: site.segment(".index.arrow"),
    "rows of an old segment": lambda site: site.segment(".arrow", min),
    "held rows": lambda site: site.held(),
    "staged result": lambda site: site.staged(),
    "list of shared folders": lambda site: site.state / "results" / "r" / "manifest.json",
    "queries of a shared folder": lambda site: next((site.state / "results" / "shared").glob("*/.queries")),
    "Spark's metadata": lambda site: site.state / "spark" / "metadata",
    "Spark's last offsets": lambda site: site.spark("offsets"),
    "Spark's offsets before": lambda site: site.spark("offsets", 1),
    "Spark's last commit": lambda site: site.spark("commits"),
    "Spark's commit before": lambda site: site.spark("commits", 1),
    "Spark's last note of files": lambda site: site.spark("sources/0"),
    "Spark's note of all files": lambda site: site.state / "spark" / "sources" / "1" / "9.compact",
    "Spark's plan of a batch": lambda site: copied(site.spark("offsets")),
    "lock": lambda site: site.state / "lock",
    "Spark's checkpoint": lambda site: site.state / "spark",
    "Spark's offsets": lambda site: site.state / "spark" / "offsets",
    "Spark's notes of files": lambda site: site.state / "spark" / "sources",
    "all manifests": lambda site: site.state / "manifest",
    "all segments": lambda site: site.state / "segments",
    "the registry": lambda site: site.state / "registry",
}


def copied(last: Path) -> Path:
    """As if Spark had planned one more batch, of nothing."""
    planned = last.with_name(str(int(last.name) + 1))
    shutil.copy(last, planned)
    return planned


FOLDERS = [
    "Spark's checkpoint",
    "Spark's offsets",
    "Spark's notes of files",
    "all manifests",
    "all segments",
    "the registry",
]

IRREPLACEABLE = {
    "rows of an old segment",
    "Spark's last note of files",
    "Spark's note of all files",
    "Spark's checkpoint",
    "Spark's notes of files",
    "all manifests",
    "all segments",
    "the registry",
}
"""What neither a copy nor another batch can make good: nothing is started. From all else a run goes on."""


def deleted(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_in_half(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def other_bytes(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 8] = np.random.default_rng(len(whole)).bytes(len(whole[middle : middle + 8]))
    path.write_bytes(whole)


def other_json(path: Path) -> None:
    path.write_text(json.dumps({"version": 2, "action": "explode", "something": ["else"]}))


DAMAGES = (deleted, empty, cut_in_half, other_bytes, other_json)
EVERY = [(kind, damage) for kind in KINDS for damage in (DAMAGES if kind not in FOLDERS else (deleted,))]
FEW = [
    ("newest manifest", cut_in_half),
    ("two newest manifests", other_bytes),
    ("registry entry", deleted),
    ("inbox entry", other_json),
    ("rows of a segment", other_bytes),
    ("held rows", empty),
    ("staged result", deleted),
    ("list of shared folders", cut_in_half),
    ("Spark's last offsets", cut_in_half),
    ("Spark's last commit", empty),
    ("Spark's last note of files", other_bytes),
    ("Spark's checkpoint", deleted),
    ("all manifests", deleted),
]
CASES = EVERY if os.environ.get("MILLSTREAM_DAMAGE") == "all" else FEW


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, mill_at: Callable[..., Any]) -> Site:
    return Site(tmp_path_factory.mktemp("site"), mill_at)


def test_the_run_is_what_the_engine_gives(site: Site) -> None:
    batches = [batch(number) for number in range(FILES + 1)]
    whole = run(SCRIPT, {name: [one[name] for one in batches] for name in "AB"})
    for name in "qrs":
        assert site.expected[name] == in_order(whole[name].to_pylist())
    assert len(site.expected["late"]) == 1
    assert site.expected["q"]


@pytest.mark.parametrize(("kind", "damage"), CASES, ids=[f"{kind}, {damage.__name__}" for kind, damage in CASES])
def test_nothing_is_lost_or_doubled(site: Site, kind: str, damage: Callable[[Path], None]) -> None:
    site.reset()
    damage(KINDS[kind](site))
    if kind in IRREPLACEABLE:
        with pytest.raises(MillstreamError) as caught:
            site.restarted()
        check_parts(caught.value)
    else:
        assert site.outcome(site.restarted()) == site.expected


def test_published_results_are_the_users(site: Site) -> None:
    """They do not come again; nothing else suffers, and whoever reads them is told."""
    site.reset()
    gone, broken = sorted((site.state / "results" / "q").glob("q-*.parquet"))[:2]
    lost = pq.read_table(gone).num_rows
    gone.unlink()
    whole = broken.read_bytes()
    cut_in_half(broken)
    (site.state / "results" / "q" / "mine.parquet").write_bytes(b"mine")
    mill = site.restarted()
    assert {name: in_order(mill.results(name)) for name in "rs"} == {name: site.expected[name] for name in "rs"}
    with pytest.raises(ScriptError, match=r"results of query q cannot be read: .*; published results are yours.* Put"):
        mill.results("q")
    broken.write_bytes(whole)
    assert len(mill.results("q")) == len(site.expected["q"]) - lost


def test_what_spark_cannot_read_is_said_in_four_parts(site: Site) -> None:
    """Notes that look right to us, and are of a version Spark does not know."""
    site.reset()
    planned = copied(site.spark("offsets"))
    planned.write_text(planned.read_text().replace("v1", "v99", 1))
    with pytest.raises(ScriptError, match=r"state/spark: Spark cannot go on from its checkpoint: .*") as caught:
        site.restarted()
    check_parts(caught.value)


def check_parts(error: MillstreamError) -> None:
    """Where, what was found, what is valid, what to do."""
    assert isinstance(error, ScriptError), repr(error)
    assert str(error.where), str(error)
    assert error.found, str(error)
    assert error.valid, str(error)
    assert error.todo.endswith("."), str(error)
