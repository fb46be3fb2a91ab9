"""How the parts of this room say that something is wrong: an error, and the node it is about."""

from __future__ import annotations

from sqlglot import exp

from millstream.errors import Errors, ScriptError, Where
from millstream.sql.text import Text


class Report:
    """Collects the errors of one statement, each at its place."""

    def __init__(self, text: Text, errors: Errors, query: str | None = None) -> None:
        self._text = text
        self._errors = errors
        self._query = query
        self.count = 0

    def __call__(self, error: ScriptError, node: exp.Expr) -> None:
        self.count += 1
        self._errors.add(self.placed(error, node))

    def place(self, node: exp.Expr) -> Where:
        """Where a node stands."""
        return self._text.where(node, self._query)

    def placed(self, error: ScriptError, node: exp.Expr) -> ScriptError:
        """The error at the node, unless it knows a better place."""
        return error.at(self.place(node))
