"""Workers are found among a process's own descendants, and their memory is read."""

from __future__ import annotations

import os
import subprocess
import sys

from millstream.lab.bench.processes import Watch, descendants, resident, workers

_DAEMON = """
import os, sys
kept = bytearray(os.urandom(1)) * 50_000_000
if os.fork() == 0:
    kept = kept + kept
    print(os.getpid(), flush=True)
sys.stdin.read()
"""


def test_what_a_daemon_has_forked_is_watched() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _DAEMON, "pyspark.daemon"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    worker = int(child.stdout.readline())
    try:
        with Watch(os.getpid()) as watch:
            assert {child.pid, worker} <= set(descendants(os.getpid()))
            assert workers(child.pid) == [worker]
            assert resident([worker]).own > 90_000_000
            while not watch.peak().whole:
                pass
    finally:
        child.stdin.close()
        child.wait()
    assert resident([child.pid]).whole == 0
