"""What chose the plan in use, in a file of the directory: so `millstream explain` shows the plan that runs, and not the
one that hints would give. Results do not depend on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from millstream.engine.files import Files
from millstream.model.settings import Settings
from millstream.pipeline.measuring import RunStatistics
from millstream.plan import Plan, costs_of, make_plan
from millstream.plan.costs import Calibration
from millstream.plan.replan import replanned

NAME = "plan.json"
_MOST = 20


@dataclass(frozen=True, slots=True)
class Change:
    """A change of plans after a batch, why, and what it has brought as far as that is known."""

    batch: int
    why: str
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The settings and costs the plan was made with, the statistics it was chosen by (none: hints), and the last
    changes.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    calibration: Mapping[str, float] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()

    @property
    def base(self) -> Calibration:
        return Calibration(**self.calibration)

    def with_change(self, change: Change) -> Chosen:
        return replace(self, changes=(*self.changes, change)[-_MOST:])

    def with_effect(self, effect: str) -> Chosen:
        """With what the last change has brought."""
        *before, last = self.changes
        return replace(self, changes=(*before, replace(last, effect=effect)))

    def plan(self, plan: Plan) -> Plan:
        """The plan in use, from one of the same statements made with any settings."""
        script = replace(plan.script, settings=Settings(**{**asdict(plan.script.settings), **self.settings}))
        hinted = make_plan(script, calibration=self.base)
        if not self.statistics:
            return hinted
        known = RunStatistics.from_json(self.statistics)
        return replanned(hinted, known.statistics(hinted), costs_of(script, known.calibration(self.base)))

    def write(self, files: Files) -> None:
        with suppress(OSError):  # as with the status: the batch is committed, whatever becomes of this
            files.write(NAME, json.dumps(asdict(self)).encode(), sync=False)

    @classmethod
    def read(cls, files: Files) -> Chosen:
        """What the last run has written; nothing where there is no such file, or it is damaged or of other fields."""
        if not files.has(NAME):
            return cls()
        try:
            found = json.loads(files.read(NAME))
            changes = tuple(Change(**one) for one in found.pop("changes"))
            read = cls(**found, changes=changes)
            RunStatistics.from_json(read.statistics)
            Settings(**{**asdict(Settings()), **read.settings})
            _ = read.base
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return cls()
        return read
