"""The grammar: a sqlglot dialect with CREATE STREAM, CREATE QUERY, SET and WINDOW.

Everything else is sqlglot's own SQL, except that functions are left as plain names: which functions there are is
said in one place, `model.functions`.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import TokenType

STREAM_SHAPE = "CREATE STREAM name (column TYPE, ...) WITH (time = 'column', ...)"
QUERY_SHAPE = "CREATE QUERY name AS SELECT ... FROM a, b WHERE a.key = b.key WINDOW 1 MINUTE"
SET_SHAPE = "SET name = value"


class CreateStream(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "columns": True, "options": False}


class CreateQuery(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "options": False, "select": True}


class SetValue(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


class StreamColumnDef(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class Option(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


class WindowClause(exp.Expression):
    """WINDOW with one size for all sources, or one per source."""

    arg_types: ClassVar[dict[str, bool]] = {"sizes": True}


class WindowSize(exp.Expression):
    """`source` is None where the size holds for all; `unit` is None where the amount is a string with units."""

    arg_types: ClassVar[dict[str, bool]] = {"source": False, "amount": True, "unit": False}


class MillstreamParser(parser.Parser):
    """sqlglot's parser with our statements."""

    ID_VAR_TOKENS: ClassVar = parser.Parser.ID_VAR_TOKENS - {TokenType.WINDOW}
    TABLE_ALIAS_TOKENS: ClassVar = parser.Parser.TABLE_ALIAS_TOKENS - {TokenType.WINDOW}
    ALIAS_TOKENS: ClassVar = parser.Parser.ALIAS_TOKENS - {TokenType.WINDOW}
    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {
        name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT")
    }
    NO_PAREN_FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    QUERY_MODIFIER_PARSERS: ClassVar = {
        **parser.Parser.QUERY_MODIFIER_PARSERS,
        TokenType.WINDOW: lambda self: ("windows", self._parse_our_window()),
    }

    def _parse_statement(self) -> exp.Expr | None:
        if self._match_text_seq("CREATE", "STREAM"):
            return self._parse_create_stream()
        if self._match_text_seq("CREATE", "QUERY"):
            return self._parse_create_query()
        if self._match_text_seq("SET"):
            return self._parse_set_value()
        self.raise_error("Unknown statement")
        return None

    def _parse_create_stream(self) -> exp.Expr:
        name = self._parse_name("stream")
        columns = self._parse_wrapped_csv(self._parse_stream_column) if self._curr_is(TokenType.L_PAREN) else []
        node = CreateStream(this=name, columns=columns, options=self._parse_our_options())
        return node.update_positions(name)

    def _parse_stream_column(self) -> exp.Expr:
        name = self._parse_name("column")
        kind = self._parse_types(schema=True, allow_identifiers=False)
        if kind is None:
            self.raise_error("Expected a type")
        return StreamColumnDef(this=name, kind=kind).update_positions(name)

    def _parse_create_query(self) -> exp.Expr:
        name = self._parse_name("query")
        options = self._parse_our_options()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        select = self._parse_select()
        if select is None:
            self.raise_error("Expected SELECT")
        return CreateQuery(this=name, options=options, select=select).update_positions(name)

    def _parse_set_value(self) -> exp.Expr:
        name = self._parse_name("setting")
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =")
        return SetValue(this=name, value=self._parse_option_value()).update_positions(name)

    def _parse_our_options(self) -> list[exp.Expr]:
        return self._parse_wrapped_csv(self._parse_option) if self._match(TokenType.WITH) else []

    def _parse_option(self) -> exp.Expr:
        first = self._curr
        if not self._match(TokenType.STRING):
            self._parse_name("option")
            while self._match(TokenType.DOT):
                self._parse_name("option")
        key = self._prev.text if self._prev is first else self._find_sql(first, self._prev)
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =")
        return Option(this=key, value=self._parse_option_value()).update_positions(first)

    def _parse_option_value(self) -> exp.Expr:
        negative = self._match(TokenType.DASH)
        value = (
            self._parse_string() or self._parse_number() or self._parse_boolean() or self._parse_var(any_token=False)
        )
        if value is None:
            self.raise_error("Expected a value")
            return exp.null()
        return exp.Neg(this=value) if negative else value

    def _parse_our_window(self) -> exp.Expr:
        token = self._prev if self._match(TokenType.WINDOW) else self._curr
        return WindowClause(sizes=self._parse_csv(self._parse_window_size)).update_positions(token)

    def _parse_window_size(self) -> exp.Expr:
        first = self._curr
        source = None
        amounts = {TokenType.NUMBER, TokenType.STRING, TokenType.DASH, TokenType.INTERVAL}
        if self._curr and self._curr.token_type not in amounts:
            source = self._parse_name("source")
        self._match(TokenType.INTERVAL)
        negative = self._match(TokenType.DASH)
        amount = self._parse_number() or self._parse_string()
        if amount is None:
            self.raise_error("Expected a length such as 1 MINUTE")
            return exp.null()
        if negative:
            amount = exp.Literal(this=f"-{amount.this}", is_string=amount.is_string).update_positions(amount)
        unit = None
        if self._curr and self._curr.token_type != TokenType.COMMA:
            unit = exp.Var(this=self._curr.text).update_positions(self._curr)
            self._advance()
        return WindowSize(source=source, amount=amount, unit=unit).update_positions(first)

    def _parse_name(self, what: str) -> exp.Expr | None:
        name = self._parse_id_var(any_token=False)
        if name is None:
            self.raise_error(f"Expected a {what} name")
        return name

    def _curr_is(self, kind: TokenType) -> bool:
        return bool(self._curr) and self._curr.token_type == kind


class Millstream(Dialect):
    """Identifiers stand plain, in double quotes or in backticks; strings in single quotes."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]

    Parser = MillstreamParser
