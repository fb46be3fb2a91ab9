"""Name resolution: which source and column a name in a query means."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from millstream.errors import ScriptError, Where, did_you_mean, listing
from millstream.model.expr import Call, Column, Expr, Literal
from millstream.model.query import Source
from millstream.model.types import STRING
from millstream.sql.report import series


class Scope:
    """The sources of one query. `merged` holds the columns of USING, each with the sources that share it, in the order
    in which `*` gives them.
    """

    def __init__(self, sources: Sequence[Source], merged: Mapping[str, Collection[int]] | None = None) -> None:
        self.sources = tuple(sources)
        self._merged = dict(merged or {})
        self._seen = len(self.sources)

    def upto(self, position: int) -> Scope:
        """What the ON of the source at this position sees: its own source and those before it, as in Spark."""
        scope = Scope(self.sources, self._merged)
        scope._seen = position + 1
        return scope

    def source(self, name: str) -> int:
        """The index of the source with this alias."""
        index = self._find(name)
        if index is not None:
            return index
        for source in self.sources[self._seen :]:
            if source.alias.lower() == name.lower():
                raise self._too_early(f'"{source.alias}"', source)
        aliases = [source.alias for source in self.sources]
        renamed = [f'"{source.alias}"' for source in self.sources if source.stream.name.lower() == name.lower()]
        called = f"This query calls it {series(renamed, 'or')}." if renamed else ""
        todo = called or did_you_mean(name, aliases, "Use one of these.")
        raise ScriptError(f'no source "{name}" in this query', f"FROM names {listing(aliases)}", todo)

    def resolve(self, path: Sequence[str], places: Sequence[Where]) -> Expr:
        """Resolves `column`, `source.column`, and fields of structs after either; errors have the place of the name
        they are about.
        """
        index = self._find(path[0]) if len(path) > 1 else None
        depth = 0 if index is None else 1
        try:
            expr: Expr = self._unqualified(path) if index is None else self.column(index, path[1])
            for name in path[depth + 1 :]:
                depth += 1
                expr = _field(expr, name)
        except ScriptError as error:
            raise error.at(places[depth]) from None
        return expr

    def column(self, index: int, name: str) -> Column:
        column = self.sources[index].stream.column(name)
        return Column(index, column.name, column.type)

    def columns(self, index: int | None = None) -> list[Column]:
        """What `*` stands for: the columns of one source, or of all with the merged ones once and first."""
        if index is not None:
            return [self.column(index, column.name) for column in self.sources[index].stream.columns]
        everything = [column for i in range(len(self.sources)) for column in self.columns(i)]
        first = [next(column for column in everything if self._is_merged(column, name)) for name in self._merged]
        return first + [column for column in everything if not self._is_merged(column, column.name.lower())]

    def is_time(self, column: Column) -> bool:
        """Whether this is the time column of its source."""
        return column.name.lower() == self.sources[column.source].stream.time.lower()

    def _unqualified(self, path: Sequence[str]) -> Column:
        name = path[0]
        found = [
            Column(index, column.name, column.type)
            for index, source in enumerate(self.sources[: self._seen])
            if (column := source.stream.find(name)) is not None
        ]
        if len(found) == 1 or (found and all(self._is_merged(column, name.lower()) for column in found)):
            return found[0]
        if found:
            names = [f"{self.sources[column.source].alias}.{column.name}" for column in found]
            raise ScriptError(
                f'"{name}" is ambiguous', f"it may mean {series(names, 'or')}", "Write the source before the column."
            )
        if len(path) > 1:
            self.source(name)
        for source in self.sources[self._seen :]:
            if source.stream.find(name) is not None:
                raise self._too_early(f'"{name}" of {source.alias}', source)
        known = {column.name: None for source in self.sources[: self._seen] for column in source.stream.columns}
        streams = list(dict.fromkeys(source.stream.name for source in self.sources[: self._seen]))
        raise ScriptError(
            f'no column "{name}" in {series(streams, "or")}',
            f"there are {listing(known)}",
            did_you_mean(name, known, "Use one of these, or '...' for text."),
        )

    def _too_early(self, what: str, source: Source) -> ScriptError:
        seen = series([source.alias for source in self.sources[: self._seen]], "and")
        return ScriptError(
            f"{what} comes after this ON",
            f"this ON sees {seen}",
            f"Move the condition to the ON of {source.alias}, or to WHERE.",
        )

    def shares(self, name: str, indexes: Collection[int]) -> bool:
        """Whether all these sources share a column of USING."""
        return set(indexes) <= set(self._merged.get(name.lower(), ()))

    def _is_merged(self, column: Column, name: str) -> bool:
        return column.name.lower() == name and column.source in self._merged.get(name, ())

    def _find(self, name: str) -> int | None:
        lower = name.lower()
        return next((i for i, source in enumerate(self.sources[: self._seen]) if source.alias.lower() == lower), None)


def _field(expr: Expr, name: str) -> Expr:
    field = next((field for field in expr.type.fields if field.name.lower() == name.lower()), None)
    if field is None:
        known = [field.name for field in expr.type.fields]
        valid = f"the fields are {listing(known)}" if known else f"{expr.type} has no fields"
        raise ScriptError(f'no field "{name}" here', valid, did_you_mean(name, known, "Use the column itself."))
    return Call("field", (expr, Literal(field.name, STRING)), field.type)
