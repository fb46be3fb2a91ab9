"""`millstream bench kafka`: both contestants give the right rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_both_give_the_right_rows(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "millstream", "bench", "kafka", "--seconds", "10", "--batches", "2"]
    done = subprocess.run(command, cwd=tmp_path, check=True, timeout=300, capture_output=True, text=True)
    assert done.stdout.count("the right rows") == 2
    assert "times as fast (goal 15)" in done.stdout
