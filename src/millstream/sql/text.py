"""The script as text: places in it, its statements, and syntax errors in the user's words."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from millstream.errors import Errors, ScriptError, Where
from millstream.sql.dialect import QUERY_SHAPE, SET_SHAPE, STREAM_SHAPE, Millstream
from millstream.sql.terms import SyntaxProblem

# The quotes and comments of a script; the last branch matches an opening that is never closed.
_PIECES = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*+'|"(?:[^"]|"")*+"|`(?:[^`]|``)*+`|(?P<open>['"`]|/\*)""", re.DOTALL
)
_SHAPES = {"STREAM": STREAM_SHAPE, "QUERY": QUERY_SHAPE}


class Text:
    """A script's text, which turns nodes and offsets into places."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._line_starts = [0, *(newline.end() for newline in re.finditer("\n", sql))]

    def place(self, offset: int, query: str | None = None) -> Where:
        line = bisect_right(self._line_starts, offset)
        return Where(line, offset - self._line_starts[line - 1] + 1, query)

    def where(self, node: exp.Expr, query: str | None = None) -> Where:
        """Where a node begins in the text."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if not starts and node.parent is not None:
            return self.where(node.parent, query)
        return self.place(min(starts, default=0), query)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements that parse, and the names of streams whose declaration does not."""

    nodes: tuple[exp.Expr, ...]
    broken_streams: frozenset[str]


def statements(text: Text, errors: Errors) -> Statements:
    """The statements of a script; reports an error for each that does not parse."""
    chunks = _chunks(text, errors)
    nodes: list[exp.Expr] = []
    broken: set[str] = set()
    for chunk in chunks:
        try:
            parsed = Millstream().parser().parse(chunk, text.sql)
            nodes += [node for node in parsed if node is not None]
            continue
        except SyntaxProblem as problem:
            errors.add(_syntax_error(text, chunk, problem))
        except RecursionError:
            errors.add(too_deep(text.place(chunk[0].start, _query_name(chunk))))
        if _begins(chunk, "STREAM") and len(chunk) > 2:
            broken.add(chunk[2].text.lower())
    return Statements(tuple(nodes), frozenset(broken))


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as written: its kind ('stream', 'query' or 'set'), the name it is about, and its text."""

    kind: str
    name: str
    text: str


def split(sql: str) -> list[Statement]:
    """The statements of a script that is known to be valid."""
    found = []
    for chunk in _chunks(Text(sql), Errors()):
        kind = "set" if chunk[0].text.upper() == "SET" else chunk[1].text.lower()
        name = chunk[1 if kind == "set" else 2].text
        found.append(Statement(kind, name, sql[chunk[0].start : chunk[-1].end + 1]))
    return found


def too_deep(where: Where) -> ScriptError:
    found = "the statement is nested too deeply"
    valid = "an expression nests up to 100 levels, of which brackets, functions and CASEs may be some fifty"
    return ScriptError(found, valid, "Split it into simpler ones.", where)


def _chunks(text: Text, errors: Errors) -> list[list[Token]]:
    """The tokens of each statement."""
    try:
        all_tokens = Millstream().tokenize(text.sql)
    except TokenError:
        errors.add(_token_error(text))
        return []
    chunks: list[list[Token]] = [[]]
    for token in all_tokens:
        if token.token_type == TokenType.SEMICOLON:
            chunks.append([])
        else:
            chunks[-1].append(token)
    chunks = [chunk for chunk in chunks if chunk]
    if not chunks:
        found, valid = "the script is empty", "a script declares streams and queries"
        errors.add(ScriptError(found, valid, f"Begin with {STREAM_SHAPE};", text.place(0)))
    return chunks


def _token_error(text: Text) -> ScriptError:
    """The tokenizer fails only on a quote or comment that is opened and never closed."""
    opened = next((piece for piece in _PIECES.finditer(text.sql) if piece["open"]), None)
    place = text.place(opened.start() if opened else 0)
    if opened is None or opened["open"] == "/*":
        return ScriptError("a comment /* is opened and never closed", "a comment ends with */", "Close it.", place)
    return ScriptError(
        f"a quote {opened['open']} is opened and never closed",
        "text stands in '...' and odd names in \"...\"",
        "Close the quote.",
        place,
    )


def _syntax_error(text: Text, chunk: list[Token], problem: SyntaxProblem) -> ScriptError:
    first = chunk[0].text.upper()
    second = chunk[1].text.upper() if len(chunk) > 1 else ""
    shape = SET_SHAPE if first == "SET" else _SHAPES.get(second, "")
    previous = next((token for token in reversed(chunk) if token.end < problem.offset), None)
    todo = f'Check the text after "{previous.text}".' if previous else "Check the statement."
    return ScriptError(
        problem.found,
        problem.valid or f"the form is {shape}",
        problem.todo or todo,
        text.place(problem.offset, _query_name(chunk)),
    )


def _begins(chunk: list[Token], word: str) -> bool:
    return [token.text.upper() for token in chunk[:2]] == ["CREATE", word]


def _query_name(chunk: list[Token]) -> str | None:
    return chunk[2].text if _begins(chunk, "QUERY") and len(chunk) > 2 else None
