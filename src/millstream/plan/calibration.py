"""The calibration of this machine, kept in the user's cache directory."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from millstream.plan.costs import Calibration


def cache_path() -> Path:
    """Where the measurement is stored: MILLSTREAM_CACHE, XDG_CACHE_HOME/millstream or ~/.cache/millstream."""
    own = os.environ.get("MILLSTREAM_CACHE")
    root = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream"
    return root / "calibration.json"


def load() -> Calibration | None:
    """The stored measurement, or None where there is none for this version."""
    try:
        kept = json.loads(cache_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    names = set(asdict(Calibration()))
    if not isinstance(kept, dict) or set(kept) != names or not all(_is_cost(value) for value in kept.values()):
        return None
    return Calibration(**kept)


def save(calibration: Calibration) -> Path:
    path = cache_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(calibration), indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def _is_cost(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
