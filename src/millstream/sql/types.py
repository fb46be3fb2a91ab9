"""Types of the text to types of the model."""

from __future__ import annotations

from sqlglot import exp

from millstream.errors import ScriptError
from millstream.model import types
from millstream.model.types import DataType, Field
from millstream.sql.nodes import TypeName
from millstream.sql.report import Report

DEEPEST = 30
_PARTS = {"ARRAY": (1, "ARRAY<INT>"), "MAP": (2, "MAP<STRING, INT>")}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_SIZED = ("VARCHAR", "CHAR", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")


def data_type(node: exp.Expr, report: Report) -> DataType:
    """The type; an error has the place of the part that is wrong."""
    try:
        if _depth(node) > DEEPEST:
            raise ScriptError("a type nested too deeply", f"types nest {DEEPEST} levels", "Split it into columns.")
        return _data_type(node, report)
    except ScriptError as error:
        raise report.placed(error, node) from None


def _depth(node: exp.Expr) -> int:
    """How deeply a type is nested in other types."""
    depth, parent = 0, node.parent
    while parent is not None:
        depth += isinstance(parent, TypeName)
        parent = parent.parent
    return depth


def _data_type(node: exp.Expr, report: Report) -> DataType:
    kind = node.name.upper()
    sizes, parts, fields = (node.args.get(part) or [] for part in ("sizes", "parts", "fields"))
    if kind == "STRUCT":
        return _struct(fields, report)
    if kind in _PARTS:
        count, example = _PARTS[kind]
        if len(parts) != count:
            found = f"{kind} with {len(parts)} type{'' if len(parts) == 1 else 's'} in it"
            raise ScriptError(found, f"it is written {example}", "Name its types.")
        return DataType(kind, parts=tuple(data_type(part, report) for part in parts))
    if kind in _DECIMALS:
        return _decimal([size.name for size in sizes])
    plain = types.simple(node.name)
    if parts or fields or (sizes and kind not in _SIZED):
        raise ScriptError(f"{kind} with something in brackets", f"it is written {kind}", "Remove the brackets.")
    return plain


def _struct(fields: list[exp.Expr], report: Report) -> DataType:
    if not fields:
        raise ScriptError("STRUCT without fields", "it is written STRUCT<name: TYPE, ...>", "List its fields.")
    found: dict[str, Field] = {}
    for field in fields:
        name = field.this.name
        if name.lower() in found:
            error = ScriptError(f'field "{name}" stands twice', "each field has its own name", "Rename or remove one.")
            raise report.placed(error, field)
        found[name.lower()] = Field(name, data_type(field.args["kind"], report))
    return DataType("STRUCT", fields=tuple(found.values()))


def _decimal(sizes: list[str]) -> DataType:
    if len(sizes) > 2 or not all(size.isdecimal() and len(size) < 10 for size in sizes):
        raise ScriptError(
            f"DECIMAL({', '.join(sizes)})", "it is written DECIMAL(precision, scale)", "Give two whole numbers."
        )
    precision, scale = (*map(int, sizes), *(10, 0)[len(sizes) :])
    return types.decimal(precision, scale)
