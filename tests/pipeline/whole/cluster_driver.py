"""The same script on a cluster, in a process of its own: `python cluster_driver.py MASTER PLACE SCRIPT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from millstream.compile import compile_script
from millstream.pipeline import Pipeline
from millstream.pipeline.session import make_session

master, place, text = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]).read_text(encoding="utf-8")
spark = make_session(
    "cluster",
    master,
    {
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": "2",
    },
)
said: list[str] = []
pipeline = Pipeline("cluster", place / "state", script=text, spark=spark, tell=said.append)
for stream in compile_script(text).script.streams:
    pipeline.read(stream.name, "parquet", path=str(place / "in" / stream.name), maxFilesPerTrigger="1")
pipeline.drain()
sys.stdout.write(json.dumps({"executors": pipeline.executors, "said": said}))
