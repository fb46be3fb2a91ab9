"""`millstream bench memory`: state ten times the limit, and what the limit costs where the working set fits.

Each run is a process of its own with two slots, whose Python workers are watched from outside. What a worker takes
with next to no state, on the same rows, is the fixed overhead.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.lab.bench.processes import Resident, Watch
from millstream.lab.show import bars, verdict
from millstream.lab.workloads.idle_groups import IdleGroups
from millstream.lab.workloads.stream_files import StreamFiles, answers_in, answers_to
from millstream.model.sizes import text as size

Tell = Callable[[str], None]
_WARM = 2
"""The first batches start workers and compile; they are left out of the time."""
_TIMES, _KEPT = 10, 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All batches, with the workers' peak in each."""

    batches: Sequence[dict[str, Any]]
    peaks: Sequence[Resident]
    right: bool = True

    @property
    def peak(self) -> Resident:
        """While rows came."""
        return max((peak for peak, one in zip(self.peaks, self.batches, strict=True) if one["rows"]), key=_whole)

    @property
    def last_peak(self) -> Resident:
        """When rows had ended and what was owed was found."""
        found = [peak for peak, one in zip(self.peaks, self.batches, strict=True) if not one["rows"]]
        return max(found, key=_whole, default=Resident())

    @property
    def seconds(self) -> float:
        """The time of the batches with rows, once warm."""
        return sum(float(one["seconds"]) for one in self.batches[_WARM:] if one["rows"])

    @property
    def clean_up(self) -> float:
        return sum(float(one["seconds"]) for one in self.batches[_WARM:] if not one["rows"])

    def most(self, what: str) -> int:
        return max(int(one[what]) for one in self.batches)


def report(
    rows: int = 400_000,
    batches: int = 20,
    rounds: int = 2,
    place: Path | None = None,
    tell: Tell = lambda _: None,
) -> Iterator[str]:
    """The tables of the command; `rows` are those of each stream."""
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        yield from MemoryBench(Path(temporary), rows, batches, tell)(rounds)


class MemoryBench:
    """The runs and their tables; `busy` has rows of all keys all the time, `idle` of some groups at a time."""

    def __init__(self, place: Path, rows: int, batches: int, tell: Tell) -> None:
        self.place, self.tell = place, tell
        self.busy = IdleGroups(rows=rows, batches=batches, keys=rows // 2)
        self.idle = IdleGroups(rows=rows, batches=batches, keys=rows // 2, phases=20)
        self._runs = 0

    def __call__(self, rounds: int) -> Iterator[str]:
        files = self.busy.write(self.place / "busy")
        yield (
            f"{files.rows():,} rows of two streams in {files.batches} batches, texts of {self.busy.pad} characters, "
            "two slots on one machine"
        )
        small = self.run(files, self.busy.script(window="1 millisecond"), "next to no state")
        free = self.run(files, self.busy.script(), "no limit")
        limit = free.most("state") // _TIMES
        short = self.run(files, self.busy.script(_limit(limit)), "limit")
        yield from self._obeyed(small, free, short, limit)
        yield ""
        yield from self._fitting(limit, rounds)

    def _obeyed(self, small: Run, free: Run, short: Run, limit: int) -> Iterator[str]:
        yield f"all keys all the time, limit {size(limit)}, a tenth of the state"
        header = f"  {'':<20}{'state':>10}{'in memory':>11}{'on disk':>10}"
        yield f"{header}{'workers':>9}{'RSS':>10}{'not files':>11}{'s':>7}"
        for name, one in (("next to no state", small), ("no limit", free), ("limit", short)):
            cells = [size(one.most(what)) for what in ("state", "memory", "disk")]
            yield (
                f"  {name:<20}{cells[0]:>10}{cells[1]:>11}{cells[2]:>10}{one.peak.workers:>9}{size(one.peak.whole):>10}"
                f"{size(one.peak.own):>11}{one.seconds:>7.1f}"
            )
        for when, peak in (("while rows come", short.peak), ("in clean-up", short.last_peak)):
            over = peak.whole - small.peak.whole
            yield (
                f"  {when} the workers' RSS is at most the limit and a fixed overhead of {size(small.peak.whole)}: "
                f"{size(max(over, 0))} more than that, of {size(limit)}  {verdict(over <= limit)}"
            )
        yield (
            f"  without a limit it is {size(max(free.peak.whole - small.peak.whole, 0))} more; "
            f"up to {short.most('owing')} groups owed results, found in {short.clean_up:.1f} s when rows ended"
        )
        yield f"  all rows as DuckDB gives them: {verdict(all(one.right for one in (small, free, short)))}"

    def _fitting(self, limit: int, rounds: int) -> Iterator[str]:
        files = self.idle.write(self.place / "idle")
        settings = _limit(limit) + "SET inactive = '1 second';\n"
        free, short = [], []
        for turn in range(rounds):
            free.append(self.run(files, self.idle.script(), f"no limit, turn {turn + 1} of {rounds}"))
            short.append(self.run(files, self.idle.script(settings), f"limit, turn {turn + 1} of {rounds}"))
        best = {"no limit": min(one.seconds for one in free), "limit": min(one.seconds for one in short)}
        yield f"{self.idle.phases} phases, in each of which one group in {self.idle.phases} gets rows; same limit"
        for name, seconds in best.items():
            some = free if name == "no limit" else short
            shown = " and ".join(f"{one.seconds:.1f}" for one in some)
            yield f"  {name:<10}{seconds:>7.1f} s ({shown})  {bars(seconds, max(best.values()), 30)}"
        ratio = best["no limit"] / best["limit"]
        disk = max(one.most("disk") for one in short)
        claim = f"with {size(disk)} on disk throughput is at least {_KEPT} of unlimited"
        yield f"  {claim}: {ratio:.2f}  {verdict(ratio >= _KEPT)}"
        yield f"  all rows as DuckDB gives them: {verdict(all(one.right for one in (*free, *short)))}"

    def run(self, files: StreamFiles, script: str, label: str) -> Run:
        self._runs += 1
        state, text = self.place / f"state{self._runs}", self.place / f"script{self._runs}.sql"
        text.write_text(script, encoding="utf-8")
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "millstream.lab.bench.limited",
                str(files.folder),
                ",".join(files.streams),
                str(state),
                str(text),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        seen: list[dict[str, Any]] = []
        peaks: list[Resident] = []
        try:
            with Watch(child.pid) as watch:
                for line in child.stdout or ():
                    seen.append(json.loads(line))
                    peaks.append(watch.peak())
                    self.tell(f"{label}: {len(seen)} of {files.batches} batches")
            if child.wait():
                raise RuntimeError(f"{label}: the pipeline ended with code {child.returncode}")
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        right = answers_in(state / "results", script) == answers_to(files, script)
        return Run(batches=seen, peaks=peaks, right=right)


def _whole(one: Resident) -> int:
    return one.whole


def _limit(nbytes: int) -> str:
    return f"SET memory = '{nbytes // 1000} KB';\n"
