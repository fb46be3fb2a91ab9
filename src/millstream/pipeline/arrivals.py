"""When the rows of a batch came: by the times of the files Spark read for it, or else when the batch began."""

from __future__ import annotations

import json

from millstream.engine.files import Files


def arrived(checkpoint: str, spark_batch: int, started: int, began: int) -> int:
    """Microseconds: the oldest file of the batch, but no earlier than this process began to look for files."""
    sources = Files.at(checkpoint).below("sources")
    times = [time for source in sources.folders() for time in _file_times(sources.below(source), spark_batch)]
    return max(started, min([*times, began]))


def _file_times(notes: Files, spark_batch: int) -> list[int]:
    """Spark's file source notes the files of every batch, one JSON object a line after the version."""
    for name in (str(spark_batch), f"{spark_batch}.compact"):
        if notes.has(name):
            entries = [json.loads(line) for line in notes.read(name).decode().splitlines()[1:]]
            return [entry["timestamp"] * 1_000 for entry in entries if entry["batchId"] == spark_batch]
    return []
