"""The grammar of expressions: sqlglot's operators over our own leaves.

sqlglot reads the SQL of thirty systems and is lenient: it accepts missing parts and skips what it does not know. A
script must be read strictly, so everything below the operators is parsed here, and nodes keep their position in the
text. Functions stay plain names: `model.functions` is the one place that defines them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, NoReturn, TypeVar

from sqlglot import exp, parser
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from millstream.sql.nodes import Length, Path, SourceStar, StreamColumnDef, TypeName

T = TypeVar("T")

MISSING = "Required here"
_ROWS = "a query gives joined rows, one by one", "Apply it to the results."
_ONE_SELECT = "a query is one SELECT", "Write one query for each SELECT."
_PATTERN = "patterns are written with LIKE, % and _", "Use LIKE, or register a function."
# SQL keywords that are not part of the language, each with what is valid and what to do.
FOREIGN: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("GROUP BY", "HAVING", "ORDER BY", "SORT BY", "LIMIT", "FETCH", "OFFSET", "QUALIFY"), _ROWS),
    **dict.fromkeys(("OVER", "FILTER", "DISTINCT", "TABLESAMPLE", "PIVOT", "UNPIVOT"), _ROWS),
    **dict.fromkeys(("UNION", "EXCEPT", "INTERSECT"), _ONE_SELECT),
    **dict.fromkeys(("ILIKE", "RLIKE", "REGEXP", "SIMILAR TO", "GLOB", "ESCAPE"), _PATTERN),
    **dict.fromkeys(("LATERAL", "UNNEST"), ("FROM names streams", "Name a stream.")),
    "<=>": ("= and IS NULL compare values", "Use these."),
}
_AFTER_A_TERM = {
    *(TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.WINDOW, TokenType.JOIN),
    *(TokenType.AND, TokenType.OR, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END, TokenType.ALIAS),
}
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_LONG_UNIT = re.compile(r"(micro|milli)?seconds?|minutes?|hours?|days?|weeks?|months?|quarters?|years?", re.IGNORECASE)
_TIME_TYPES = (
    TokenType.DATE,
    TokenType.TIMESTAMP,
    TokenType.TIMESTAMPNTZ,
    TokenType.TIMESTAMPLTZ,
    TokenType.TIMESTAMPTZ,
)


class SyntaxProblem(ParseError):
    """Why a statement does not parse: what was found and where; `valid` and `todo` where the form says too little."""

    def __init__(self, found: str, offset: int, valid: str = "", todo: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.offset = offset
        self.valid = valid
        self.todo = todo


class TermParser(parser.Parser):
    """Reads expressions, types and lengths of time."""

    ID_VAR_TOKENS: ClassVar = parser.Parser.ID_VAR_TOKENS - {TokenType.WINDOW, TokenType.CASE, TokenType.END}
    TABLE_ALIAS_TOKENS: ClassVar = parser.Parser.TABLE_ALIAS_TOKENS - {TokenType.WINDOW}
    ALIAS_TOKENS: ClassVar = parser.Parser.ALIAS_TOKENS - {TokenType.WINDOW}
    PLACEHOLDER_PARSERS: ClassVar = {}
    EQUALITY: ClassVar = {TokenType.EQ: exp.EQ, TokenType.NEQ: exp.NEQ}
    BITWISE: ClassVar = {}
    TERM: ClassVar = {TokenType.PLUS: exp.Add, TokenType.DASH: exp.Sub}
    FACTOR: ClassVar = {TokenType.STAR: exp.Mul, TokenType.SLASH: exp.Div, TokenType.MOD: exp.Mod}
    UNARY_PARSERS: ClassVar = {
        TokenType.NOT: lambda self: self.expression(exp.Not(this=self._parse_equality())),
        TokenType.DASH: lambda self: self.expression(exp.Neg(this=self._parse_unary())),
    }
    RANGE_PARSERS: ClassVar = {
        TokenType.BETWEEN: lambda self, this: self._parse_between(this),
        TokenType.IN: lambda self, this: self._parse_in(this),
        TokenType.IS: lambda self, this: self._parse_is(this),
        TokenType.LIKE: lambda self, this: self._parse_like(this),
    }

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        """Raises every syntax error, sqlglot's or ours, as a message for users."""
        at = token or self._curr
        if not at:
            end = self._tokens[-1].end + 1 if self._tokens else 0
            raise SyntaxProblem(_told(message, "the statement ends", ended=True), end)
        shown = self.sql[at.start : at.end + 1]
        word = at.text.upper()
        if word in FOREIGN and at.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
            raise SyntaxProblem(f"{word} is not part of the language", at.start, *FOREIGN[word])
        todo = "If a new statement begins here, end the one before it with ;." if word in ("CREATE", "SET") else ""
        short = shown if len(shown) <= 30 else f"{shown[:27]}..."
        if message.startswith("Required") and at.token_type not in _AFTER_A_TERM:
            message = "Unexpected"
        raise SyntaxProblem(_told(message, f'"{short}"', ended=False), at.start, todo=todo)

    def _required(self, parse: Callable[[], T | None], message: str = MISSING) -> T:
        found = parse()
        if found is None:
            self.raise_error(message)
        return found

    def _expect(self, kind: TokenType, shown: str) -> None:
        if not self._match(kind):
            self.raise_error(f"Expected {shown}")

    def _list(self, parse: Callable[[], T | None]) -> list[T]:
        """A comma-separated list of at least one."""
        items = [self._required(parse)]
        while self._match(TokenType.COMMA):
            items.append(self._required(parse))
        return items

    def _parse_name(self, what: str) -> exp.Expr:
        name = self._required(lambda: self._parse_id_var(any_token=False), f"Expected {what}")
        if not name.name:
            self.raise_error(f"Expected {what}", self._prev)
        return name

    def _parse_implicit_alias(self, tokens: Collection[TokenType]) -> exp.Expr | None:
        """An alias without AS; an SQL keyword that is not part of the language is not an alias."""
        if self._curr.token_type != TokenType.IDENTIFIER and self._curr.text.upper() in FOREIGN:
            return None
        return self._parse_id_var(any_token=False, tokens=tokens)

    def _parse_select(self, *_args: bool, **_options: bool) -> exp.Expr | None:
        """sqlglot tries to parse a subquery wherever one may occur; the language has none."""
        if self._match_set((TokenType.SELECT, TokenType.WITH), advance=False):
            found, valid = "a subquery is not part of the language", "a query is one SELECT over streams"
            raise SyntaxProblem(found, self._curr.start, valid, "Write it without the inner SELECT.")
        return None

    def _parse_unary(self) -> exp.Expr | None:
        first = self._curr
        self._match(TokenType.PLUS)
        node = super()._parse_unary()
        return node if node is None or node.meta.get("start") == first.start else node.update_positions(first)

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        """Parses a leaf: that is what sqlglot calls this method for, whatever its name says."""
        del parse_interval, fallback_to_identifier
        node = self._parse_leaf()
        while node is not None and self._match(TokenType.DCOLON):
            node = exp.Cast(this=node, to=self._parse_type_name())
        return node

    def _parse_leaf(self) -> exp.Expr | None:
        token = self._curr
        kind, after = token.token_type, self._next.token_type
        if kind == TokenType.INTERVAL and after in (TokenType.STRING, TokenType.NUMBER, TokenType.DASH):
            self._advance()
            return exp.Interval(this=self._parse_length())
        if self._match(TokenType.CASE):
            return self._parse_case()
        if kind in _TIME_TYPES and after == TokenType.STRING:
            self._advance()
            return exp.Cast(this=self._required(self._parse_leaf), to=TypeName(this=token.text).update_positions(token))
        if after == TokenType.L_PAREN and kind in self.FUNC_TOKENS | {TokenType.IDENTIFIER}:
            return self._parse_call()
        constant = self._parse_constant(token)
        if constant is not None:
            self._advance()
            return constant.update_positions(token)
        if self._match(TokenType.L_PAREN):
            self._parse_select()
            inner = self._required(self._parse_disjunction)
            self._expect(TokenType.R_PAREN, ")")
            return written(exp.Paren(this=inner))
        return self._parse_path()

    def _parse_constant(self, token: Token) -> exp.Expr | None:
        kind = token.token_type
        if kind == TokenType.STRING:
            return exp.Literal.string(token.text)
        if kind == TokenType.NUMBER:
            self._check_number(token, self._next)
            return exp.Literal.number(token.text)
        after = self._next
        if kind == TokenType.DOT and after.token_type == TokenType.NUMBER and after.start == token.end + 1:
            self._advance()
            if "." not in after.text:
                return exp.Literal.number(f"0.{after.text}")
        if kind in (TokenType.TRUE, TokenType.FALSE):
            return exp.Boolean(this=kind == TokenType.TRUE)
        return exp.Null() if kind == TokenType.NULL else exp.Star() if kind == TokenType.STAR else None

    def _check_number(self, number: Token, after: Token) -> None:
        """`5d` and `1_000` are not a number with an alias."""
        joined = after and after.start == number.end + 1 and after.token_type in self.ID_VAR_TOKENS
        if joined or not _NUMBER.fullmatch(number.text):
            shown = self.sql[number.start : (after if joined else number).end + 1]
            raise SyntaxProblem(f'"{shown}" is not a number', number.start, "a number is digits", "Write digits only.")

    def _parse_path(self) -> exp.Expr | None:
        first = self._parse_id_var(any_token=False)
        if first is None:
            return None
        parts = [first]
        while self._match(TokenType.DOT):
            if len(parts) == 1 and self._match(TokenType.STAR):
                return SourceStar(this=first)
            parts.append(self._parse_name("a column name"))
        if self._match(TokenType.L_PAREN, advance=False):
            self.raise_error("Unexpected")
        return Path(parts=parts)

    def _parse_call(self) -> exp.Expr:
        token = self._curr
        name = token.text
        self._advance(2)
        if name.upper() in ("CAST", "TRY_CAST"):
            inner = self._required(self._parse_disjunction)
            self._expect(TokenType.ALIAS, "AS")
            kind = exp.Cast if name.upper() == "CAST" else exp.TryCast
            node: exp.Expr = kind(this=inner, to=self._parse_type_name())
        elif name.upper() == "EXTRACT":
            part = self._parse_name("a part of a time")
            self._expect(TokenType.FROM, "FROM")
            node = exp.Anonymous(this=part.name, expressions=[self._required(self._parse_disjunction)])
        else:
            self._parse_select()
            arguments = [] if self._match(TokenType.R_PAREN, advance=False) else self._list(self._parse_disjunction)
            node = exp.Anonymous(this=name, expressions=arguments)
        self._expect(TokenType.R_PAREN, ")")
        if self._match_texts(("OVER", "FILTER"), advance=False):
            self.raise_error("Unexpected")
        return node.update_positions(token)

    def _parse_case(self) -> exp.Expr:
        value = None if self._match(TokenType.WHEN, advance=False) else self._required(self._parse_disjunction)
        branches = []
        self._expect(TokenType.WHEN, "WHEN")
        while True:
            condition = self._required(self._parse_disjunction)
            self._expect(TokenType.THEN, "THEN")
            branches.append(exp.If(this=condition, true=self._required(self._parse_disjunction)))
            if not self._match(TokenType.WHEN):
                break
        default = self._required(self._parse_disjunction) if self._match(TokenType.ELSE) else None
        self._expect(TokenType.END, "END")
        return exp.Case(this=value, ifs=branches, default=default)

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._required(self._parse_bitwise)
        self._expect(TokenType.AND, "AND")
        return self.expression(exp.Between(this=this, low=low, high=self._required(self._parse_bitwise)))

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        del alias
        self._expect(TokenType.L_PAREN, "(")
        self._parse_select()
        options = self._list(self._parse_disjunction)
        self._expect(TokenType.R_PAREN, ")")
        return self.expression(exp.In(this=this, expressions=options))

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr:
        negate = self._match(TokenType.NOT)
        if self._curr and not self._match(TokenType.NULL, advance=False):
            found, valid = f'IS before "{self._curr.text}"', "IS NULL and IS NOT NULL are known"
            raise SyntaxProblem(found, self._prev.start, valid, "Use = for other values.")
        self._expect(TokenType.NULL, "NULL")
        node = self.expression(exp.Is(this=this, expression=exp.Null()))
        return exp.Not(this=node) if negate else node

    def _parse_like(self, this: exp.Expr | None) -> exp.Expr:
        node = self.expression(exp.Like(this=this, expression=self._required(self._parse_bitwise)))
        if self._match(TokenType.ESCAPE, advance=False):
            self.raise_error("Unexpected")
        return node

    def _negate_range(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """NOT BETWEEN, NOT IN, NOT LIKE as a NOT node; sqlglot would only set a flag on a LIKE."""
        return this and self.expression(exp.Not(this=this))

    def _parse_length(self) -> exp.Expr:
        """`5 MINUTES`, `'5' MINUTES` or `'90 seconds'`, each with a sign or without."""
        first = self._curr
        negative = self._match(TokenType.DASH)
        if not self._match_set((TokenType.NUMBER, TokenType.STRING)):
            self.raise_error("Expected a length such as 1 MINUTE")
        amount, is_string = self._prev.text, self._prev.token_type == TokenType.STRING
        literal = exp.Literal(this=f"-{amount}" if negative else amount, is_string=is_string).update_positions(first)
        takes_unit = not is_string or _NUMBER.fullmatch(amount) or _LONG_UNIT.fullmatch(self._curr.text)
        unit = self._parse_id_var(any_token=False) if takes_unit else None
        return Length(this=literal, unit=unit).update_positions(first)

    def _parse_type_name(self) -> exp.Expr:
        token = self._curr
        if not token or token.token_type not in self.TYPE_TOKENS | self.ID_VAR_TOKENS:
            self.raise_error("Expected a type")
        self._advance()
        node = TypeName(this=token.text).update_positions(token)
        if self._match(TokenType.L_PAREN):
            node.set("sizes", self._list(self._parse_constant_number))
            self._expect(TokenType.R_PAREN, ")")
        if self._match(TokenType.LT):
            if token.text.upper() == "STRUCT":
                node.set("fields", self._list(lambda: self._parse_field_type(colon=True)))
            else:
                node.set("parts", self._list(self._parse_type_name))
            self._expect(TokenType.GT, ">")
        while self._match(TokenType.L_BRACKET):
            self._expect(TokenType.R_BRACKET, "]")
            node = TypeName(this="ARRAY", parts=[node]).update_positions(token)
        return node

    def _parse_field_type(self, colon: bool = False) -> exp.Expr:
        name = self._parse_name("a field name" if colon else "a column name")
        if colon:
            self._match(TokenType.COLON)
        return StreamColumnDef(this=name, kind=self._parse_type_name()).update_positions(name)

    def _parse_constant_number(self) -> exp.Expr | None:
        token = self._curr
        return exp.Literal.number(token.text).update_positions(token) if self._match(TokenType.NUMBER) else None


def written(paren: exp.Paren) -> exp.Paren:
    """Marks parentheses that are in the text, unlike those sqlglot adds around IS."""
    paren.meta["written"] = True
    return paren


def is_written(paren: exp.Paren) -> bool:
    return bool(paren.meta.get("written"))


def _told(message: str, found: str, *, ended: bool) -> str:
    if message.startswith("Required"):
        return "something is missing at the end" if ended else f"something is missing before {found}"
    expected = re.match(r"Expect(?:ed|ing) (.*)", message)
    if expected:
        return f"expected {expected[1]}, {'but' if ended else 'found'} {found}"
    return "the statement ends too early" if ended else f"{found} is not expected here"
