"""Engine settings: the one table of what `SET` knows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model import duration, sizes


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force. Each field is described in `SETTINGS`."""

    slicing: str = "cpu"
    costs: str = "calibrated"
    system_overhead: float = 1.0
    policy: str = "greedy"
    fairness: str = "none"
    queue_memory: float = 256.0
    order: str = "eager"
    results: str = "own"
    on_error: str = "query"
    groups: int = 1024
    slots: int = 0
    budget: int = 0
    backlog: int = 0
    trigger: int = 0
    heartbeat: int = 1_000_000
    future: int = 30 * 86_400 * 1_000_000
    warn_late: float = 0.1
    sync: str = "on"
    memory: int = 0
    adaptation: str = "lazy_disk"
    spill_share: float = 0.3
    room: float = 0.6
    inactive: int = 60_000_000
    move_threshold: float = 0.8
    move_interval: int = 45_000_000
    move_least: int = 1_000_000
    output_ratio: float = 2.0
    replan: str = "on"
    replan_margin: float = 0.15
    replan_batches: int = 5
    memory_short: str = "spill"
    overload: str = "later"
    overload_after: int = 30_000_000

    def with_value(self, name: str, value: str | float | bool) -> Settings:
        """These settings with one value changed; refuses unknown names and invalid values."""
        known = {setting.name: setting for setting in SETTINGS}
        setting = known.get(name.lower())
        if setting is None:
            raise ScriptError(
                f'no setting "{name}"',
                f"the settings are {listing(known, len(known))}",
                did_you_mean(name, known, "Use one."),
            )
        changed: dict[str, Any] = {setting.name: setting.check(value)}
        return replace(self, **changed)

    def check(self) -> None:
        """Refuses values that do not go together; called once all are known."""
        if self.slots > self.groups:
            raise ScriptError(
                f"slots = {self.slots} with groups = {self.groups}",
                "there are at most as many slots as groups, since a slot has at least one",
                f"Set slots to {self.groups} or less, or groups to {_power_from(self.slots)}.",
            )
        if self.memory_short == "shrink" and not self.memory:
            raise ScriptError(
                "memory_short = 'shrink' without a limit of memory",
                "memory_short says what is done when state does not fit into the memory that is set",
                "Set memory too, such as SET memory = '2 GB'.",
            )


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: one of `choices` if there are any, else a value of `kind`. Times are microseconds."""

    name: str
    choices: tuple[str, ...]
    help: str
    kind: str = "number"
    most: int = 1_000_000_000
    """The greatest count."""
    least: int = 0
    """The least count."""

    def check(self, value: str | float | bool) -> str | float | int:
        if self.choices:
            if isinstance(value, str) and value.lower() in self.choices:
                return value.lower()
            valid = f"{self.name} is {' or '.join(repr(choice) for choice in self.choices)}"
            raise ScriptError(f"{self.name} = {value!r}", valid, did_you_mean(str(value), self.choices, "Choose one."))
        if self.kind == "size":
            return sizes.parse(str(value))
        if self.kind == "duration":
            length = duration.parse(str(value))
            if length < 0:
                raise ScriptError(f"{self.name} = {value!r}", f"{self.name} is zero or more", "Give a longer time.")
            return length
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if self.kind == "power of two":
            if isinstance(value, bool) or not 1 <= number <= self.most or number != _power_from(number):
                valid = f"{self.name} is a power of two from 1 to {self.most:,}"
                raise ScriptError(f"{self.name} = {value!r}", valid, "Give a power of two, such as 1024.")
            return int(number)
        if self.kind == "share" and not 0 < number <= 1:
            valid = f"{self.name} is a number above 0 and up to 1"
            raise ScriptError(f"{self.name} = {value!r}", valid, "Give a share, such as 0.5.")
        whole = self.kind == "count"
        if (
            isinstance(value, bool)
            or not self.least <= number <= (self.most if whole else 1e300)
            or (whole and number % 1)
        ):
            valid = (
                f"{self.name} is a {f'whole number up to {self.most:,}' if whole else 'number'}, {_from(self.least)}"
            )
            raise ScriptError(f"{self.name} = {value!r}", valid, "Give a number.")
        return int(number) if whole else number


def _from(least: int) -> str:
    return f"{least} or more" if least else "zero or more"


def _power_from(number: float) -> int:
    """The least power of two that is not less than a number of at least 1."""
    return 1 << (math.ceil(number) - 1).bit_length()


MOST_GROUPS = 4096
POLICY_NAMES = (
    "greedy",
    "lwo",
    "swf",
    "fifo",
    "round_robin",
    "chain",
    "path_capacity",
    "segment",
    "simplified_segment",
    "threshold",
    "auto",
)
ADAPTATIONS = ("none", "disk", "move", "lazy_disk", "active_disk")

SETTINGS = (
    Setting(
        "slicing",
        ("cpu", "memory"),
        "Slice for the least CPU time, or with a budget for the least mean slowdown; or at every end of a window.",
    ),
    Setting("costs", ("calibrated", "paper"), "Weigh plans in nanoseconds, or in comparisons as state-slice counts."),
    Setting(
        "system_overhead", (), "C_sys of state-slice 5.2: comparisons per tuple and slice. Used by costs = 'paper'."
    ),
    Setting("policy", POLICY_NAMES, "Whose work comes first when not all can be done at once."),
    Setting("fairness", ("none", "oldest", "dynamic"), "What keeps work from waiting for ever under the policy."),
    Setting("queue_memory", (), "Megabytes of waiting rows from which 'threshold' and 'auto' save memory."),
    Setting("order", ("eager", "strict"), "Give rows out as they are found, or in the order of their later time."),
    Setting("results", ("own", "shared"), "Write every query's rows for itself, or rows that queries share once."),
    Setting("on_error", ("query", "stop"), "What a function or sink that raises stops: its query, or everything."),
    Setting(
        "groups",
        (),
        "Into how many partition groups the keys are divided, for a directory's life; a power of two.",
        "power of two",
        MOST_GROUPS,
    ),
    Setting(
        "slots",
        (),
        "How many parts of the groups are worked on at once; 0 is as many as Spark has cores.",
        "count",
        MOST_GROUPS,
    ),
    Setting("budget", (), "How long a slot works in one batch before it defers the rest; 0 is no limit.", "duration"),
    Setting("backlog", (), "How many deferred units hold back the reading of new rows; 0 is no limit.", "count"),
    Setting("trigger", (), "The least time from the start of one batch to the next; 0 is at once.", "duration"),
    Setting(
        "heartbeat",
        (),
        "How long without new rows until changes, and event time that has moved, get a batch.",
        "duration",
    ),
    Setting(
        "future", (), "How far beyond today and all times before it a row's time may lie; 0 is no limit.", "duration"
    ),
    Setting("warn_late", (), "More than this share of a stream's rows late or unreadable is warned of.", "share"),
    Setting("sync", ("on", "off"), "Whether a batch waits until a local disk has it, and so outlives a power cut."),
    Setting("memory", (), "How much state an executor holds in memory, such as '2 GB'; 0 is no limit.", "size"),
    Setting(
        "adaptation",
        ADAPTATIONS,
        "What is done when memory is short: nothing, spill, move groups to other executors, or both.",
    ),
    Setting("spill_share", (), "What share of its state a slot spills when it holds too much.", "share"),
    Setting("room", (), "Up to what share of the memory spilled groups come back.", "share"),
    Setting("inactive", (), "How long without rows until a group is among the first to be spilled.", "duration"),
    Setting(
        "move_threshold", (), "Groups move where an executor holds less than this share of what another does.", "share"
    ),
    Setting("move_interval", (), "The least time from one move of groups to the next.", "duration"),
    Setting("move_least", (), "The least state that is worth a move.", "size"),
    Setting(
        "output_ratio", (), "How many times the results of another executor's groups make 'active_disk' spill its own."
    ),
    Setting("replan", ("on", "off"), "Whether the plan is chosen again when measurements say that another is better."),
    Setting("replan_margin", (), "By what share another plan must be cheaper.", "share"),
    Setting("replan_batches", (), "For how many batches in a row another plan must be cheaper.", "count", least=1),
    Setting(
        "memory_short",
        ("spill", "shrink"),
        "When state does not fit into memory: it is spilled, or windows are shortened where that loses least.",
    ),
    Setting(
        "overload",
        ("later", "shed_rows", "shed_keys"),
        "When rows come too fast: work waits, or some rows are left out, or all rows of some keys.",
    ),
    Setting("overload_after", (), "How long rows may wait because of work before any are left out.", "duration"),
)
