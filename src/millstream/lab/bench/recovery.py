"""How soon a pipeline with much state commits again after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from millstream.lab.workloads.sensor_files import SensorFiles
from millstream.pipeline.java import java_options

_BATCHES = 20
_GOAL = 15


def report(
    rows: int = 1_000_000, place: Path | None = None, tell: Callable[[str], None] = lambda _: None
) -> Iterator[str]:
    """Runs until the state has `rows` rows, kills all processes with -9, restarts and waits for the next commit."""
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        folder, state = Path(temporary) / "in", Path(temporary) / "state"
        SensorFiles.write(folder, 1_000, _BATCHES)
        tell("filling the state")
        first = _Child(folder, state)
        try:
            last = next(event for event in first.events() if event.get("state_rows", 0) >= rows)
        finally:
            first.kill()
        yield f"killed after batch {last['batch']} with {last['state_rows']:,} rows of state"
        tell("starting again")
        again = _Child(folder, state)
        seen: dict[str, float] = {}
        try:
            for event in again.events():
                seen.setdefault(event["what"], event["at"] - again.began)
                if event["what"] == "batch" and event["batch"] > last["batch"]:
                    break
        finally:
            again.kill()
        yield f"after the start of the process the next batch, {event['batch']}, was committed in {seen['batch']:.1f} s"
        yield f"  (goal {_GOAL} s), of which the batch itself took {event['seconds']:.1f} s"
        archive = (
            "from its archive of classes" if java_options() else "without an archive (`millstream prepare` makes one)"
        )
        yield f"  Java started {archive}"
        named = {
            "imported": "Python is ready",
            "spark": "Spark is up",
            "started": "state is recovered, sources are open",
        }
        for what, words in named.items():
            yield f"  {seen[what]:5.1f} s  {words}"


class _Child:
    def __init__(self, folder: Path, state: Path) -> None:
        self.began = time.time()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "millstream.lab.bench.recovering", str(folder), str(state)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def events(self) -> Iterator[dict[str, Any]]:
        for line in self.process.stdout or ():
            yield json.loads(line)
        raise RuntimeError(f"the pipeline ended with code {self.process.wait()}")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
