"""A pipeline in a process of its own that runs until all files are read and all that is owed is found.

It prints each batch, so that another process can watch its workers' memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from millstream.lab.workloads.stream_files import StreamFiles
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session


def main(folder: str, streams: str, state: str, script: str) -> None:
    spark = make_session("limited", "local[2]")

    def on_batch(progress: BatchProgress) -> None:
        told = {
            "seconds": progress.seconds,
            "rows": sum(progress.rows_in.values()),
            "state": progress.state_bytes,
            "memory": progress.memory_bytes,
            "disk": progress.disk_bytes,
            "owing": progress.owing,
            "adaptation": progress.adaptation,
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()

    text = Path(script).read_text(encoding="utf-8")
    pipeline = Pipeline("limited", state, script=text, spark=spark, on_batch=on_batch)
    StreamFiles(Path(folder), 0, tuple(streams.split(","))).read_by(pipeline)
    pipeline.drain()


if __name__ == "__main__":
    main(*sys.argv[1:])
