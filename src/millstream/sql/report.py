"""How this room reports errors: an error, and the node it is about."""

from __future__ import annotations

from collections.abc import Sequence

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
        """The place of a node in the text."""
        return self._text.where(node, self._query)

    def placed(self, error: ScriptError, node: exp.Expr) -> ScriptError:
        """The error with the node's place, unless it has a more exact one."""
        return error.at(self.place(node))


def series(names: Sequence[str], word: str) -> str:
    """'a', 'a or b', 'a, b or c'."""
    return f" {word} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
