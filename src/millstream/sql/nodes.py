"""Syntax nodes that sqlglot does not have."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class CreateStream(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "columns": False, "options": False}


class CreateQuery(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "options": False,
        "outputs": True,
        "sources": True,
        "condition": False,
        "window": False,
    }


class SetValue(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


class StreamColumnDef(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class TypeName(exp.Expression):
    """A type: a name, and its sizes, its parts, or its fields as `StreamColumnDef`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "sizes": False, "parts": False, "fields": False}


class Option(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


class SourceRef(exp.Expression):
    """A stream in FROM, with its join condition where it follows JOIN."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False, "on": False, "using": False}


class Path(exp.Expression):
    """A name, or names with dots between them."""

    arg_types: ClassVar[dict[str, bool]] = {"parts": True}


class SourceStar(exp.Expression):
    """`source.*`"""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Length(exp.Expression):
    """A number and a unit; `unit` is None where the amount is a string with units, or the unit is missing."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": False}


class WindowClause(exp.Expression):
    """WINDOW with one size for all sources, or one per source."""

    arg_types: ClassVar[dict[str, bool]] = {"sizes": True}


class WindowSize(exp.Expression):
    """`source` is None where the length applies to all sources."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "source": False}
