"""A DataFrame's columns become a declaration that reads back as the same columns, whatever they are called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark_types

from millstream.compile import compile_script
from millstream.model.stream import Stream
from millstream.model.types import DataType
from millstream.pipeline.columns import columns_of

PLAIN: list[spark_types.DataType] = [
    spark_types.BooleanType(),
    spark_types.ByteType(),
    spark_types.ShortType(),
    spark_types.IntegerType(),
    spark_types.LongType(),
    spark_types.FloatType(),
    spark_types.DoubleType(),
    spark_types.DecimalType(9, 2),
    spark_types.StringType(),
    spark_types.BinaryType(),
    spark_types.DateType(),
    spark_types.TimestampType(),
]
names = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8).map("c{}".format)
kinds = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: st.one_of(
        inner.map(spark_types.ArrayType),
        st.tuples(st.sampled_from(PLAIN[2:5]), inner).map(lambda pair: spark_types.MapType(*pair)),
        st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda one: one[0].lower()).map(
            lambda parts: spark_types.StructType([spark_types.StructField(*part) for part in parts])
        ),
    ),
    max_leaves=4,
)


def declared(columns: list[tuple[str, spark_types.DataType]]) -> Stream:
    """The stream that is declared with the columns of a DataFrame of this schema."""
    schema = spark_types.StructType([spark_types.StructField(*one) for one in columns])
    frame: Any = SimpleNamespace(schema=schema)  # all of a DataFrame that is looked at, without starting Spark
    text = ", ".join(columns_of(frame))
    (stream,) = compile_script(f"CREATE STREAM S ({text}, \"Ts\" TIMESTAMP) WITH (time = 'Ts')").script.streams
    return stream


def same(ours: DataType, theirs: spark_types.DataType) -> None:
    if isinstance(theirs, spark_types.StructType):
        assert [part.name for part in ours.fields] == theirs.names
        pairs = [(part.type, other.dataType) for part, other in zip(ours.fields, theirs.fields, strict=True)]
    elif isinstance(theirs, spark_types.ArrayType):
        pairs = [(ours.parts[0], theirs.elementType)]
    elif isinstance(theirs, spark_types.MapType):
        pairs = list(zip(ours.parts, (theirs.keyType, theirs.valueType), strict=True))
    else:
        assert str(ours).replace(" ", "") == theirs.simpleString().upper()
        return
    for one, other in pairs:
        same(one, other)


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_every_plain_type(kind: spark_types.DataType) -> None:
    same(declared([("c", kind)]).columns[0].type, kind)


@pytest.mark.parametrize("name", ["select", "a b", 'say "x"', "it's", "`", "größe", "🌡", "Order", "1st"])
def test_any_name(name: str) -> None:
    kind = spark_types.ArrayType(spark_types.StructType([spark_types.StructField(name, spark_types.IntegerType())]))
    column, _ = declared([(name, kind)]).columns
    assert column.name == name
    same(column.type, kind)


@given(st.lists(st.tuples(names, kinds), max_size=3, unique_by=lambda one: one[0].lower()))
def test_any_columns_can_be_declared(columns: list[tuple[str, spark_types.DataType]]) -> None:
    columns = [("first", spark_types.LongType()), *columns]
    found = declared(columns)
    assert [column.name for column in found.columns] == [*(name for name, _ in columns), "Ts"]
    for column, (_, kind) in zip(found.columns, columns, strict=False):
        same(column.type, kind)
