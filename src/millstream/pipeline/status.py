"""The status of a pipeline for those who do not see its screen: a file that the run writes after every batch."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from millstream.engine.files import Files
from millstream.pipeline.directory import Directory
from millstream.pipeline.progress import BatchProgress

NAME = "status.json"
_EVERY_SECONDS = 10.0
"""How often it is written where that is slow: on file systems other than the local one."""


class StatusFile:
    """Totals of a run, written without waiting for the disk: nothing depends on them."""

    def __init__(self, directory: Directory) -> None:
        self._files = directory.files
        self._started, self._written = time.time(), 0.0
        self._batches = 0
        self._rows_in: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        self._shed: Counter[str] = Counter()
        self._rows_out: Counter[str] = Counter()

    def write(self, batch: BatchProgress, warnings: Iterable[str]) -> None:
        self._batches += 1
        self._rows_in.update(batch.rows_in)
        self._late.update(batch.late)
        self._shed.update(batch.shed)
        self._rows_out.update({name: one.rows for name, one in batch.queries.items()})
        if not self._files.is_local and time.time() - self._written < _EVERY_SECONDS:
            return
        self._written = time.time()
        told = {
            "process": os.getpid(),
            "started": self._started,
            "batches": self._batches,
            "rows_in": dict(self._rows_in),
            "late": dict(self._late),
            "shed": dict(self._shed),
            "rows_out": dict(self._rows_out),
            "warnings": list(warnings),
            "last": batch.to_json(),
        }
        with suppress(OSError):  # the batch is committed, whatever becomes of this
            self._files.write(NAME, json.dumps(told).encode(), sync=False)


def last_status(files: Files) -> dict[str, Any]:
    """What the last run has written; empty where it has not come to a batch, or the file is damaged."""
    if not files.has(NAME):
        return {}
    try:
        found = json.loads(files.read(NAME))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
