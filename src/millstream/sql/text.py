"""The script as text: places in it, its statements, and syntax errors in the user's words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from millstream.errors import Errors, ScriptError, Where
from millstream.model import types
from millstream.sql.dialect import QUERY_SHAPE, SET_SHAPE, STREAM_SHAPE, Millstream

_QUOTE_OR_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/|['\"`]", re.DOTALL)
_SHAPES = {"STREAM": STREAM_SHAPE, "QUERY": QUERY_SHAPE}


class Text:
    """A script's text, which turns nodes and offsets into places."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def place(self, offset: int, query: str | None = None) -> Where:
        offset = min(max(offset, 0), len(self.sql))
        line_start = self.sql.rfind("\n", 0, offset) + 1
        return Where(self.sql.count("\n", 0, offset) + 1, offset - line_start + 1, query)

    def where(self, node: exp.Expr, query: str | None = None) -> Where:
        """Where a node begins in the text."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        return self.place(min(starts, default=0), query)


def statements(text: Text, errors: Errors) -> Iterator[exp.Expr]:
    """The statements that parse; an error is reported for each that does not."""
    dialect = Millstream()
    try:
        all_tokens = dialect.tokenize(text.sql)
    except TokenError as error:
        errors.add(_token_error(text, error))
        return
    chunks: list[list[Token]] = [[]]
    for token in all_tokens:
        if token.token_type == TokenType.SEMICOLON:
            chunks.append([])
        else:
            chunks[-1].append(token)
    chunks = [chunk for chunk in chunks if chunk]
    if not chunks:
        errors.add(
            ScriptError(
                "the script is empty",
                "a script declares streams and queries",
                f"Begin with {STREAM_SHAPE};",
                text.place(0),
            )
        )
    for chunk in chunks:
        try:
            parsed = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(chunk, text.sql)
        except ParseError as error:
            errors.add(_syntax_error(text, chunk, error))
        except RecursionError:
            errors.add(
                ScriptError(
                    "the statement is nested too deeply",
                    "expressions may nest some hundred levels",
                    "Split it into simpler ones.",
                    text.place(chunk[0].start),
                )
            )
        else:
            yield from (node for node in parsed if node is not None)


def _token_error(text: Text, error: TokenError) -> ScriptError:
    opened = None
    for piece in _QUOTE_OR_COMMENT.finditer(text.sql):
        if opened is None and piece[0] in "'\"`":
            opened = piece.start()
        elif opened is not None and piece[0] == text.sql[opened]:
            opened = None
    if opened is None:
        return ScriptError(
            "the text cannot be read as SQL",
            "statements end with ;",
            "Remove what is not SQL.",
            text.place(error.start or 0),
        )
    return ScriptError(
        f"a quote {text.sql[opened]} is opened and never closed",
        "text stands in '...' and odd names in \"...\"",
        "Close the quote.",
        text.place(opened),
    )


def _syntax_error(text: Text, chunk: list[Token], error: ParseError) -> ScriptError:
    detail = error.errors[0] if error.errors else {}
    description = str(detail.get("description") or "syntax error")
    highlight = str(detail.get("highlight") or "")
    words = [token.text.upper() for token in chunk[:2]]
    second = words[1] if len(words) > 1 else ""
    query = chunk[2].text if words == ["CREATE", "QUERY"] and len(chunk) > 2 else None
    offset = _offset(text, chunk, detail)
    if description == "Unknown statement":
        found = f'"{" ".join(words)}" begins no statement of a script'
        valid = "a script has CREATE STREAM, CREATE QUERY and SET"
        return ScriptError(found, valid, "Use one of these.", text.place(chunk[0].start))
    if description == "Expected a type":
        try:
            types.simple(highlight)
        except ScriptError as unknown:
            return unknown.at(text.place(offset))
    shape = _SHAPES.get(second, SET_SHAPE if words[0] == "SET" else "")
    told = (
        "an expression is missing" if "equired keyword" in description else description.replace("Expecting", "Expected")
    )
    told = told[0].lower() + told[1:]
    if "nvalid expression" in description:
        found = f'"{highlight}" is not expected here'
    elif offset > chunk[-1].end:
        found = f"{told}, but the statement ends"
    else:
        found = f'{told}, found "{highlight}"'
    previous = next((token for token in reversed(chunk) if token.end < offset), None)
    todo = f'Check the text after "{previous.text}".' if previous else "Check the statement."
    return ScriptError(found, f"the form is {shape}", todo, text.place(offset, query))


def _offset(text: Text, chunk: list[Token], detail: dict[str, object]) -> int:
    """Where sqlglot stopped. It counts the column of a token's end, so the token is looked up again."""
    for token in chunk:
        if token.line == detail.get("line") and token.col == detail.get("col"):
            return len(text.sql[: token.end + 1]) if token is chunk[-1] and _ended(token, detail) else token.start
    return chunk[-1].end + 1


def _ended(token: Token, detail: dict[str, object]) -> bool:
    """Whether the error names the last token only because nothing came after it."""
    return str(detail.get("description", "")).startswith("Expect") and detail.get("highlight") == token.text
