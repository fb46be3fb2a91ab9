"""What an error of a user's function says: its first line, and where in the user's own code it was raised."""

from __future__ import annotations

import traceback
from pathlib import Path

_OURS = str(Path(__file__).parents[1])
_CALLERS = ("registered.py", "writing.py")
"""The files that call users' functions."""
_MOST_FRAMES = 8


def cause_of(error: BaseException) -> str:
    """The error in a line; below it the user's part of the traceback, if a function of the user's raised it."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    called = max((n for n, frame in enumerate(frames) if frame.filename.startswith(_OURS)), default=-1)
    if called < 0 or Path(frames[called].filename).name not in _CALLERS:
        return said
    theirs = list(frames)[called + 1 :][-_MOST_FRAMES:]
    return "\n".join([said, *(line for frame in theirs for line in _lines(frame))])


def _lines(frame: traceback.FrameSummary) -> list[str]:
    code = (frame.line or "").strip()
    return [f"  {frame.filename}, line {frame.lineno}, in {frame.name}", *([f"    {code}"] if code else [])]
