"""Engine settings: the one table of what `SET` knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from millstream.errors import ScriptError, did_you_mean, listing


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

    def with_value(self, name: str, value: str | float | bool) -> Settings:
        """These settings with one changed; refuses unknown names and values."""
        known = {setting.name: setting for setting in SETTINGS}
        setting = known.get(name.lower())
        if setting is None:
            raise ScriptError(
                f'no setting "{name}"', f"the settings are {listing(known)}", did_you_mean(name, known, "Use one.")
            )
        changed: dict[str, Any] = {setting.name: setting.check(value)}
        return replace(self, **changed)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: a choice of words, or a number that is not negative."""

    name: str
    choices: tuple[str, ...]
    help: str

    def check(self, value: str | float | bool) -> str | float:
        if self.choices:
            if isinstance(value, str) and value.lower() in self.choices:
                return value.lower()
            valid = f"{self.name} is {' or '.join(repr(choice) for choice in self.choices)}"
            raise ScriptError(f"{self.name} = {value!r}", valid, did_you_mean(str(value), self.choices, "Choose one."))
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if isinstance(value, bool) or not 0 <= number < float("inf"):
            raise ScriptError(f"{self.name} = {value!r}", f"{self.name} is a number, zero or more", "Give a number.")
        return number


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

SETTINGS = (
    Setting("slicing", ("cpu", "memory"), "Merge slices for the least CPU time, or keep them all for the least state."),
    Setting("costs", ("calibrated", "paper"), "Weigh plans in nanoseconds, or in comparisons as state-slice counts."),
    Setting(
        "system_overhead", (), "C_sys of state-slice 5.2: comparisons per tuple and slice. Used by costs = 'paper'."
    ),
    Setting("policy", POLICY_NAMES, "Whose work comes first when not all can be done at once."),
    Setting("fairness", ("none", "oldest", "dynamic"), "What keeps work from waiting for ever under the policy."),
    Setting("queue_memory", (), "Megabytes of waiting rows from which 'threshold' and 'auto' save memory."),
    Setting("order", ("eager", "strict"), "Give rows out as they are found, or in the order of their later time."),
)
