"""The grammar of a script: a sqlglot dialect with CREATE STREAM, CREATE QUERY, SET and WINDOW."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import TokenType

from millstream.sql.nodes import (
    CreateQuery,
    CreateStream,
    Option,
    SetValue,
    SourceRef,
    SourceStar,
    WindowClause,
    WindowSize,
)
from millstream.sql.terms import SyntaxProblem, TermParser

STREAM_SHAPE = "CREATE STREAM name (column TYPE, ...) WITH (time = 'column', ...)"
QUERY_SHAPE = "CREATE QUERY name AS SELECT ... FROM a, b WHERE a.key = b.key WINDOW 1 MINUTE"
SET_SHAPE = "SET name = value"
_ONE_BY_ONE = "Write a JOIN b ON ... JOIN c ON ... instead."


class MillstreamParser(TermParser):
    """Reads statements."""

    def _parse_statement(self) -> exp.Expr | None:
        if self._match_text_seq("CREATE", "STREAM"):
            return self._parse_create_stream()
        if self._match_text_seq("CREATE", "QUERY"):
            return self._parse_create_query()
        if self._match_text_seq("SET"):
            return self._parse_set_value()
        first, second = self._curr, self._next
        shown = self.sql[first.start : (second if first.text.upper() == "CREATE" and second else first).end + 1]
        raise SyntaxProblem(
            f'"{shown}" begins no statement of a script',
            first.start,
            "a script has CREATE STREAM, CREATE QUERY and SET",
            "Begin with one of these.",
        )

    def _parse_create_stream(self) -> exp.Expr:
        name = self._parse_name("a stream name")
        columns: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN):
            columns = self._list(self._parse_field_type)
            self._expect(TokenType.R_PAREN, "a comma or )")
        return CreateStream(this=name, columns=columns, options=self._parse_our_options()).update_positions(name)

    def _parse_create_query(self) -> exp.Expr:
        name = self._parse_name("a query name")
        options = self._parse_our_options()
        self._expect(TokenType.ALIAS, "AS")
        if not self._match(TokenType.SELECT):
            self.raise_error("Expected SELECT")
        outputs = self._list(self._parse_output)
        self._expect(TokenType.FROM, "a comma or FROM")
        sources = self._parse_sources()
        condition = self._required(self._parse_disjunction) if self._match(TokenType.WHERE) else None
        window = self._parse_our_window() if self._match(TokenType.WINDOW) else None
        node = CreateQuery(
            this=name, options=options, outputs=outputs, sources=sources, condition=condition, window=window
        )
        return node.update_positions(name)

    def _parse_output(self) -> exp.Expr | None:
        expression = self._parse_disjunction()
        if isinstance(expression, exp.Star | SourceStar):
            if self._match_texts(("EXCEPT", "EXCLUDE", "REPLACE", "RENAME"), advance=False):
                found = f"* with {self._curr.text.upper()}"
                raise SyntaxProblem(found, self._curr.start, "* selects all columns", "List the columns you want.")
            return expression
        if expression is None:
            return None
        if self._match(TokenType.ALIAS):
            return exp.Alias(this=expression, alias=self._parse_name("a name"))
        alias = self._parse_implicit_alias(self.ALIAS_TOKENS)
        return expression if alias is None else exp.Alias(this=expression, alias=alias)

    def _parse_sources(self) -> list[exp.Expr]:
        sources = [self._parse_source()]
        while True:
            if self._match(TokenType.COMMA):
                sources.append(self._parse_source())
            elif self._parse_join_word():
                source = self._parse_source()
                if self._match(TokenType.ON):
                    source.set("on", self._required(self._parse_disjunction))
                elif self._match(TokenType.USING):
                    self._expect(TokenType.L_PAREN, "(")
                    source.set("using", self._list(lambda: self._parse_name("a column name")))
                    self._expect(TokenType.R_PAREN, ")")
                if self._match(TokenType.ON, advance=False):
                    found, valid = "two ONs in a row", "each JOIN is followed by its own ON"
                    raise SyntaxProblem(found, self._curr.start, valid, _ONE_BY_ONE)
                sources.append(source)
            else:
                return sources

    def _parse_join_word(self) -> bool:
        """Whether JOIN comes next; only inner joins are ours."""
        first = self._curr
        words = [token.text.upper() for token in self._parse_join_parts() if token]
        if not self._match(TokenType.JOIN):
            if words:
                self.raise_error("Expected JOIN")
            return False
        if any(word not in ("INNER", "CROSS") for word in words):
            raise SyntaxProblem(
                f"{' '.join(words)} JOIN is not part of the language",
                first.start,
                "JOIN is an inner join",
                "Use JOIN ... ON, or FROM a, b WHERE.",
            )
        return True

    def _parse_source(self) -> exp.Expr:
        if self._match(TokenType.L_PAREN):
            if not self._match_set((TokenType.SELECT, TokenType.WITH), advance=False):
                found, valid = "parentheses in FROM", "FROM names one stream after another"
                raise SyntaxProblem(found, self._prev.start, valid, _ONE_BY_ONE)
            self._parse_select()
            self.raise_error("Expected a stream name", self._prev)
        name = self._parse_name("a stream name")
        if self._match_set((TokenType.DOT, TokenType.L_PAREN), advance=False):
            self.raise_error("Unexpected")
        named = self._match(TokenType.ALIAS)
        alias = self._parse_name("a name") if named else self._parse_implicit_alias(self.TABLE_ALIAS_TOKENS)
        return SourceRef(this=name, alias=alias).update_positions(name)

    def _parse_set_value(self) -> exp.Expr:
        name = self._parse_name("a setting name")
        self._expect(TokenType.EQ, "=")
        return SetValue(this=name, value=self._parse_option_value()).update_positions(name)

    def _parse_our_options(self) -> list[exp.Expr]:
        if not self._match(TokenType.WITH):
            return []
        self._expect(TokenType.L_PAREN, "(")
        if self._match(TokenType.R_PAREN):
            return []
        options = self._list(self._parse_option)
        self._expect(TokenType.R_PAREN, "a comma or )")
        return options

    def _parse_option(self) -> exp.Expr:
        first = self._curr
        if not self._match(TokenType.STRING):
            self._parse_name("an option name")
            while self._match(TokenType.DOT):
                self._parse_name("an option name")
        key = self._prev.text if self._prev is first else self._find_sql(first, self._prev)
        self._expect(TokenType.EQ, "=")
        return Option(this=key, value=self._parse_option_value()).update_positions(first)

    def _parse_option_value(self) -> exp.Expr:
        """A constant or a bare word."""
        first = self._curr
        if self._match_pair(TokenType.DASH, TokenType.NUMBER):
            return exp.Literal(this=f"-{self._prev.text}", is_string=False).update_positions(first)
        if self._match_set((TokenType.STRING, TokenType.NUMBER)):
            return exp.Literal.string(first.text).update_positions(first)
        if self._match_set((TokenType.TRUE, TokenType.FALSE)):
            return exp.Literal.string(first.text.lower()).update_positions(first)
        return self._required(lambda: self._parse_id_var(any_token=False), "Expected a value")

    def _parse_our_window(self) -> exp.Expr:
        token = self._prev
        return WindowClause(sizes=self._list(self._parse_window_size)).update_positions(token)

    def _parse_window_size(self) -> exp.Expr:
        first = self._curr
        amounts = (TokenType.NUMBER, TokenType.STRING, TokenType.DASH, TokenType.INTERVAL)
        source = None if self._match_set(amounts, advance=False) else self._parse_id_var(any_token=False)
        self._match(TokenType.INTERVAL)
        return WindowSize(this=self._parse_length(), source=source).update_positions(first)


class Millstream(Dialect):
    """Identifiers are plain, in double quotes or in backticks; strings are in single quotes."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        NESTED_COMMENTS = False

    Parser = MillstreamParser
