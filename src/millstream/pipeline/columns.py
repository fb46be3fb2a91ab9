"""The columns of a user's DataFrame, as CREATE STREAM declares them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types


def columns_of(frame: DataFrame) -> list[str]:
    """Every column with its type, in the words of the language."""
    return [f"{_quoted(field.name)} {_type_text(field.dataType)}" for field in frame.schema.fields]


def _type_text(kind: spark_types.DataType) -> str:
    if isinstance(kind, spark_types.StructType):
        return f"STRUCT<{', '.join(f'{_quoted(one.name)}: {_type_text(one.dataType)}' for one in kind.fields)}>"
    if isinstance(kind, spark_types.ArrayType):
        return f"ARRAY<{_type_text(kind.elementType)}>"
    if isinstance(kind, spark_types.MapType):
        return f"MAP<{_type_text(kind.keyType)}, {_type_text(kind.valueType)}>"
    return kind.simpleString().upper()


def _quoted(name: str) -> str:
    """A quoted name, so that it may also be a keyword."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
