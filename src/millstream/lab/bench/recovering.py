"""A pipeline in a process of its own that prints each commit, so that another process can kill it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from millstream.lab.workloads.sensor_files import SensorFiles
from millstream.lab.workloads.sensor_queries import windows_script
from millstream.lab.workloads.windows import UNIFORM
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session


def say(what: str, **more: object) -> None:
    sys.stdout.write(json.dumps({"what": what, "at": time.time(), **more}) + "\n")
    sys.stdout.flush()


def main(folder: str, state: str) -> None:
    say("imported")
    spark = make_session("recovering")
    say("spark")

    def on_batch(progress: BatchProgress) -> None:
        say("batch", batch=progress.batch, state_rows=progress.state_rows, seconds=progress.seconds)

    pipeline = Pipeline("recovering", state, script=windows_script(UNIFORM), spark=spark, on_batch=on_batch)
    SensorFiles.at(Path(folder)).read_by(pipeline)
    pipeline.start()
    say("started")
    pipeline.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
