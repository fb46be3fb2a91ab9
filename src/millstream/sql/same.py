"""Whether two statements have the same syntax tree.

Blanks, comments, and the case of keywords and names do not matter. String constants do, and so does the case of a name
that appears in the results: an alias, or a source that columns are named after.
"""

from __future__ import annotations

from sqlglot import exp

from millstream.errors import Errors
from millstream.sql.nodes import CreateQuery, Option, SourceRef
from millstream.sql.text import Text, statements


def same(one: str, other: str) -> bool:
    """Whether it makes no difference which of the two statements runs."""
    return one == other or _said(one) == _said(other)


def _said(text: str) -> object:
    errors = Errors()
    found = statements(Text(text), errors)
    # Text that does not parse is compared literally.
    return text if list(errors) else tuple(_shape(node, shown=False) for node in found.nodes)


def _shape(node: object, *, shown: bool) -> object:
    """A statement as nested tuples; `shown` where the case of a name matters."""
    if isinstance(node, list):
        return tuple(_shape(part, shown=shown) for part in node)
    if isinstance(node, exp.Literal):
        return "literal", node.name, node.is_string
    if isinstance(node, exp.Identifier):
        return "name", node.name if shown else node.name.lower()
    if not isinstance(node, exp.Expr):
        return node.lower() if isinstance(node, str) else node
    keeps = _SHOWN.get(type(node), ())
    parts = ((key, _shape(value, shown=key in keeps)) for key, value in node.args.items() if value)
    return type(node).__name__, tuple(sorted(parts))


_SHOWN: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Alias: ("alias",),
    SourceRef: ("this", "alias"),
    Option: ("value",),
    CreateQuery: ("this",),
}
