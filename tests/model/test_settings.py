"""What SET knows."""

from __future__ import annotations

import pytest

from millstream.errors import ScriptError
from millstream.model import SETTINGS, Settings, duration
from millstream.model.settings import Setting


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_has_a_valid_default_and_a_description(setting: Setting) -> None:
    default = getattr(Settings(), setting.name)
    written = duration.text(default) if setting.kind == "duration" else default
    assert setting.check(written) == default
    assert setting.help.endswith(".")


def test_the_table_describes_every_field() -> None:
    assert [setting.name for setting in SETTINGS] == list(Settings.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("slicing", "memory", "memory"),
        ("SLICING", "Memory", "memory"),
        ("costs", "paper", "paper"),
        ("system_overhead", "2.5", 2.5),
        ("system_overhead", 0, 0.0),
        ("budget", "300 ms", 300_000),
        ("heartbeat", "1 minute 30 seconds", 90_000_000),
        ("slots", "4", 4),
        ("groups", "1", 1),
        ("groups", "64", 64),
        ("groups", 4096, 4096),
    ],
)
def test_with_value(name: str, value: str | float, expected: str | float) -> None:
    assert getattr(Settings().with_value(name, value), name.lower()) == expected


def test_settings_are_not_changed_in_place() -> None:
    before = Settings()
    before.with_value("slicing", "memory")
    assert before.slicing == "cpu"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("slicng", "cpu", 'no setting "slicng"; the settings are .*Did you mean "slicing"?'),
        ("slicing", "memry", "slicing = 'memry'; slicing is 'cpu' or 'memory'. Did you mean \"memory\"?"),
        ("slicing", 5, "slicing = 5; slicing is 'cpu' or 'memory'. Choose one."),
        ("system_overhead", "-1", "system_overhead is a number, zero or more"),
        ("system_overhead", "nan", "system_overhead is a number, zero or more"),
        ("system_overhead", "inf", "system_overhead is a number, zero or more"),
        ("system_overhead", True, "system_overhead is a number, zero or more"),
        ("system_overhead", "much", "system_overhead is a number, zero or more"),
        ("slots", "4097", "slots is a whole number up to 4,096, zero or more"),
        *[
            ("groups", value, f"groups = {value!r}; groups is a power of two from 1 to 4,096. Give a power of two")
            for value in ("0", "3", "-4", "8192", "2.5", "nan", "inf", "many", True)
        ],
    ],
)
def test_wrong_settings_are_refused(name: str, value: str | float, message: str) -> None:
    with pytest.raises(ScriptError, match=message.replace("?", r"\?")):
        Settings().with_value(name, value)


@pytest.mark.parametrize(
    ("name", "value"), [("slots", "2.5"), ("slots", "-1"), ("slots", "many"), ("budget", "-1 second"), ("budget", "3")]
)
def test_counts_are_whole_and_times_have_units(name: str, value: str) -> None:
    with pytest.raises(ScriptError):
        Settings().with_value(name, value)


def test_there_are_no_more_slots_than_groups() -> None:
    for groups, slots in ((1, 0), (1, 1), (64, 64), (1024, 1024)):
        Settings(groups=groups, slots=slots).check()
    with pytest.raises(
        ScriptError, match=r"slots = 65 with groups = 64; .* Set slots to 64 or less, or groups to 128\."
    ):
        Settings(groups=64, slots=65).check()
