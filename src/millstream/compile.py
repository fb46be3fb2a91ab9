"""Text to plan in one call, with every error of the script reported together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millstream import sql
from millstream.errors import Errors, ScriptError, ScriptErrors, Where
from millstream.model.functions import Function
from millstream.plan import Calibration, Costs, Plan, Statistics, make_plan


def compile_script(
    text: str,
    *,
    functions: Mapping[str, Function] | None = None,
    settings: Mapping[str, str] | None = None,
    statistics: Statistics | None = None,
    costs: Costs | None = None,
    calibration: Calibration | None = None,
) -> Plan:
    """The shared plan of a script; `settings` override the script's own, `costs` overrides the costs that settings
    choose.
    """
    errors = Errors()
    script = sql.read(text, errors, functions)
    for name, value in (settings or {}).items():
        try:
            script = replace(script, settings=script.settings.with_value(name, value))
        except ScriptError as error:
            errors.add(error)
    try:
        script.settings.check()
    except ScriptError as error:
        errors.add(error.at(Where(file="settings")))
    try:
        plan = make_plan(script, statistics=statistics, costs=costs, calibration=calibration)
    except ScriptErrors as found:
        raise ScriptErrors([*errors, *found.errors]) from None
    errors.raise_if_any()
    return plan
