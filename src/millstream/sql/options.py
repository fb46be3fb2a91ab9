"""WITH (...) options and SET values."""

from __future__ import annotations

from sqlglot import exp

from millstream.errors import ScriptError


def options_of(node: exp.Expr) -> tuple[tuple[str, str], ...]:
    """Options in the order written; a name may stand once."""
    found: dict[str, tuple[str, str]] = {}
    for option in node.args.get("options") or []:
        name = str(option.this)
        if name.lower() in found:
            raise ScriptError(f'option "{name}" stands twice', "each option is given once", "Remove one of them.")
        found[name.lower()] = (name, str(value_of(option.args["value"])))
    return tuple(found.values())


def value_of(node: exp.Expr) -> str | float | bool:
    """A constant: text, number, truth value or bare word."""
    if isinstance(node, exp.Neg):
        return f"-{value_of(node.this)}"
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    return node.name
