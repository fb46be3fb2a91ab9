"""WITH (...) options."""

from __future__ import annotations

from sqlglot import exp

from millstream.errors import ScriptError
from millstream.model.known_options import check_option, format_of
from millstream.sql.report import Report


def options_of(node: exp.Expr, report: Report, *, read: bool) -> dict[str, exp.Expr]:
    """Options by name in lower case, in the order written; a name may occur once, and must be a known one."""
    found: dict[str, exp.Expr] = {}
    for option in node.args.get("options") or []:
        name = str(option.this)
        if name.lower() in found:
            error = ScriptError(f'option "{name}" stands twice', "each option is given once", "Remove one of them.")
            report(error, option)
        else:
            found[name.lower()] = option
    kind = format_of(pair(option) for option in found.values())
    for option in found.values():
        try:
            check_option(str(option.this), kind, read=read)
        except ScriptError as error:
            report(error, option)
    return found


def pair(option: exp.Expr) -> tuple[str, str]:
    """Name and value as written."""
    return str(option.this), option.args["value"].name
