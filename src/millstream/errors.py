"""Every error a user can meet.

An error has four parts: where it is, what was found there, what would be valid, and what to do next.
`ScriptError` is one such error, `ScriptErrors` all those of one script. `InternalError` means a bug in
Millstream itself and is never the user's fault.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a script. Lines and columns count from 1; an offset counts characters from 0."""

    line: int = 0
    column: int = 0
    query: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        parts = []
        if self.file:
            parts.append(self.file)
        if self.query:
            parts.append(f"query '{self.query}'")
        if self.line:
            parts.append(f"line {self.line}, column {self.column}")
        return ", ".join(parts)


class MillstreamError(Exception):
    """Base of every error Millstream raises on purpose."""


class InternalError(MillstreamError):
    """A bug in Millstream: a state that should be impossible."""


class ScriptError(MillstreamError):
    """One thing wrong with a script, a setting or an argument, in four parts."""

    def __init__(self, found: str, valid: str, todo: str, where: Where | None = None) -> None:
        self.found = found
        self.valid = valid
        self.todo = todo
        self.where = where or Where()
        super().__init__(found, valid, todo, self.where)

    def at(self, where: Where) -> ScriptError:
        """The same error with a place; the parts of its place that are already known stay."""
        known = {name: value for name in ("line", "column", "query", "file") if (value := getattr(self.where, name))}
        return type(self)(self.found, self.valid, self.todo, replace(where, **known))

    def __str__(self) -> str:
        place = str(self.where)
        message = self.found
        if self.valid:
            message += f"; {self.valid}"
        message += f". {self.todo}"
        return f"{place}: {message}" if place else message


class NotSupportedYet(ScriptError):
    """Valid in the language, but no runner can execute it yet."""


class ScriptErrors(MillstreamError):
    """All errors of one script, in the order of the text."""

    def __init__(self, errors: Iterable[ScriptError]) -> None:
        self.errors = tuple(sorted(errors, key=lambda error: (error.where.line, error.where.column)))
        if not self.errors:
            raise InternalError("ScriptErrors needs at least one error")
        super().__init__(self.errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class QueryFailed(MillstreamError):
    """An expression or function of these queries raised on the rows it was given."""

    def __init__(self, queries: Iterable[str], cause: str) -> None:
        self.queries = tuple(sorted(queries))
        self.cause = cause
        super().__init__(self.queries, cause)

    def __str__(self) -> str:
        names = " and ".join(f"'{name}'" for name in self.queries)
        return f"query {names}: {self.cause}"


class BatchFailed(MillstreamError):
    """A batch failed and no query is to blame. It is not committed, and can be tried again."""


class PipelineFailed(MillstreamError):
    """A batch could not be finished. It is not committed; a restart resumes from the batch before."""


class Errors:
    """Collects errors, so that a user sees all errors of a script at once."""

    def __init__(self) -> None:
        self._found: dict[str, ScriptError] = {}

    def add(self, error: ScriptError) -> None:
        self._found.setdefault(str(error), error)

    def __iter__(self) -> Iterator[ScriptError]:
        return iter(self._found.values())

    def raise_if_any(self) -> None:
        if self._found:
            raise ScriptErrors(self)


def listing(names: Iterable[str], limit: int = 12) -> str:
    """Names for a message: 'a, b, c', shortened where there are many."""
    shown = list(names)
    if len(shown) > limit:
        return ", ".join(shown[:limit]) + f" and {len(shown) - limit} more"
    return ", ".join(shown)


def did_you_mean(name: str, options: Iterable[str], otherwise: str) -> str:
    """A suggestion for a misspelt name, or what to do when no name is close."""
    by_lower = {option.lower(): option for option in options}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f'Did you mean "{by_lower[near[0]]}"?' if near else otherwise
