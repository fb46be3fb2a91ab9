"""A pipeline in a process of its own, made to be killed: `python crash_driver.py PLACE SCRIPT`."""

from __future__ import annotations

import sys
from pathlib import Path

from millstream.compile import compile_script
from millstream.pipeline import Pipeline

place, text = Path(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8")
pipeline = Pipeline("crash", place / "state", script=text)
for stream in compile_script(text).script.streams:
    pipeline.read(stream.name, "parquet", path=str(place / "in" / stream.name), maxFilesPerTrigger="1")
pipeline.start()
try:
    pipeline.wait()
finally:
    pipeline.stop()
