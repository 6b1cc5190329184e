"""Tests that the sink accepts and refuses the same columns as Spark's own sink."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from klamm.spark.sink.errors import ColumnError
from klamm.spark.sink.sink_columns import SinkColumns


def headers(value: DataType) -> ArrayType:
    """Returns the type of a headers column whose header values have the given type."""
    return ArrayType(StructType([StructField("key", StringType()), StructField("value", value)]))


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "long": LongType(),
    "headers": headers(BinaryType()),
    "map": MapType(StringType(), BinaryType()),
    "texts": headers(StringType()),
}


def schema(text: str) -> StructType:
    """Returns the schema for a text of the form `name type, name type`."""
    return StructType([StructField(name, TYPES[kind]) for name, kind in (each.split() for each in text.split(","))])


def test_every_column_is_found_by_its_name() -> None:
    """Each column is found by its name, and other columns are ignored."""
    found = SinkColumns.of(
        schema("offset long, partition int, headers headers, value binary, topic string, key string"), None
    )

    assert found == SinkColumns(value=3, key=5, topic=4, headers=2, partition=1)


def test_the_value_is_enough_for_one_topic() -> None:
    """With a topic from the option, the column `value` alone is enough."""
    assert SinkColumns.of(schema("value string"), "flights") == SinkColumns(value=0)


def test_the_option_takes_precedence_over_the_column() -> None:
    """The topic option takes precedence over the topic column, even if the column has an invalid type."""
    assert SinkColumns.of(schema("topic int, value string"), "flights") == SinkColumns(value=1)


def test_the_first_of_equal_names_counts() -> None:
    """If two columns have the same name, the first one counts, as in Spark's sink."""
    assert SinkColumns.of(schema("value string, value int"), "flights") == SinkColumns(value=0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("value string", "topic option required when no 'topic' attribute is present"),
        ("topic string", "Required attribute 'value' not found"),
        ("topic string, Value string", "Required attribute 'value' not found"),
        ("topic binary, value string", r"topic attribute unsupported type binary. topic must be a\(n\) string"),
        ("topic string, value int", r"value attribute unsupported type int. value must be a\(n\) string or binary"),
        ("topic string, value string, key long", "key attribute unsupported type bigint"),
        ("topic string, value string, partition long", r"partition attribute unsupported type bigint.* a\(n\) int"),
        ("topic string, value string, headers map", "headers attribute unsupported type map"),
        (
            "topic string, value string, headers texts",
            r"headers must be a\(n\) array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_wrong_columns_are_refused(columns: str, message: str) -> None:
    """Wrong columns are refused with the error texts of Spark's sink."""
    with pytest.raises(ColumnError, match=message):
        SinkColumns.of(schema(columns), None)
