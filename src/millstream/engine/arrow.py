"""Types and columns of the model as Arrow sees them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import ScriptError
from millstream.model.stream import Stream
from millstream.model.types import DataType

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_PLAIN = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "INTERVAL": pa.duration("us"),
    "BINARY": pa.binary(),
    "NULL": pa.null(),
}


def arrow_type(kind: DataType) -> pa.DataType:
    if kind.name == "DECIMAL":
        return pa.decimal128(kind.precision or 38, kind.scale or 0)
    if kind.name == "STRUCT":
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in kind.fields])
    if kind.name == "ARRAY":
        return pa.list_(arrow_type(kind.parts[0]))
    if kind.name == "MAP":
        return pa.map_(arrow_type(kind.parts[0]), arrow_type(kind.parts[1]))
    return _PLAIN[kind.name]


def arrow_schema(stream: Stream) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in stream.columns])


def conform(stream: Stream, rows: pa.Table) -> pa.Table:
    """The rows with just the declared columns in the declared types."""
    schema = arrow_schema(stream)
    columns = []
    for field in schema:
        matches = [name for name in rows.column_names if name.lower() == field.name.lower()]
        if not matches:
            raise ScriptError(
                f'the rows of {stream.name} have no column "{field.name}"',
                f"they have {', '.join(rows.column_names)}",
                "Add the column, or declare the stream without it.",
            )
        column = rows.column(matches[0])
        try:
            columns.append(column if column.type == field.type else pc.cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ScriptError(
                f"{stream.name}.{field.name} holds {column.type}: {error}",
                f"it is declared as {field.type}",
                "Change the declaration or the rows.",
            ) from None
    return pa.table(columns, schema=schema)


def microseconds(column: pa.Array) -> Ints:
    """A timestamp column without nulls as integers."""
    return np.asarray(column.view(pa.int64()))
