"""Names: which source and column a name in a query means."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model.expr import Call, Column, Expr, Literal
from millstream.model.query import Source
from millstream.model.types import STRING


class Scope:
    """The sources of one query."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)

    def source(self, name: str) -> int:
        """The index of the source with this alias."""
        index = self._find(name)
        if index is not None:
            return index
        aliases = [source.alias for source in self.sources]
        renamed = [source.alias for source in self.sources if source.stream.name.lower() == name.lower()]
        todo = f'This query calls it "{renamed[0]}".' if renamed else did_you_mean(name, aliases, "Use one of these.")
        raise ScriptError(f'no source "{name}" in this query', f"FROM names {listing(aliases)}", todo)

    def resolve(self, path: Sequence[str]) -> Expr:
        """`column`, `source.column`, and fields of structs behind either."""
        if len(path) > 1 and (index := self._find(path[0])) is not None:
            return self._fields(self.column(index, path[1]), path[2:])
        found = [
            (index, column)
            for index, source in enumerate(self.sources)
            if (column := source.stream.find(path[0])) is not None
        ]
        if len(found) > 1:
            names = [f"{self.sources[index].alias}.{column.name}" for index, column in found]
            raise ScriptError(
                f'"{path[0]}" is ambiguous', f"it may mean {' or '.join(names)}", "Write the source before the column."
            )
        if found:
            index, column = found[0]
            return self._fields(Column(index, column.name, column.type), path[1:])
        if len(path) > 1:
            self.source(path[0])
        known = {column.name: None for source in self.sources for column in source.stream.columns}
        raise ScriptError(
            f'no column "{path[0]}" in {" or ".join(dict.fromkeys(s.stream.name for s in self.sources))}',
            f"there are {listing(known)}",
            did_you_mean(path[0], known, "Use one of these, or '...' for text."),
        )

    def column(self, index: int, name: str) -> Column:
        column = self.sources[index].stream.column(name)
        return Column(index, column.name, column.type)

    def is_time(self, column: Column) -> bool:
        """Whether this is the time column of its source."""
        return column.name.lower() == self.sources[column.source].stream.time.lower()

    def _find(self, name: str) -> int | None:
        lower = name.lower()
        return next((i for i, source in enumerate(self.sources) if source.alias.lower() == lower), None)

    def _fields(self, expr: Expr, names: Sequence[str]) -> Expr:
        for name in names:
            fields = {field.name.lower(): field for field in expr.type.fields}
            if name.lower() not in fields:
                known = [field.name for field in expr.type.fields]
                valid = f"it has {listing(known)}" if known else f"{expr.type} has no fields"
                raise ScriptError(f'no field "{name}" here', valid, did_you_mean(name, known, "Use the column itself."))
            field = fields[name.lower()]
            expr = Call("field", (expr, Literal(field.name, STRING)), field.type)
        return expr
