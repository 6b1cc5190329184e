"""The columns of a DataFrame that become records, as in Spark's own Kafka sink. The sink ignores other columns.

The texts are those of `KafkaWriter` in Spark's connector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.spark.sink.errors import ColumnError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["SinkColumns"]

_TEXT_OR_BYTES: Final = ("string", "binary")
_HEADERS: Final = ("array<struct<key:string,value:binary>>",)


class SinkColumns(NamedTuple):
    """The positions of the columns in the DataFrame; None for a column that it does not have."""

    value: int
    key: int | None = None
    topic: int | None = None
    """None also if the option `topic` is set, which takes precedence over the column."""
    headers: int | None = None
    partition: int | None = None

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> SinkColumns:
        """Finds the columns; `topic` is the option. Names are case-sensitive. If several columns have the same name,
        the first one counts.

        Raises `ColumnError` if a required column is missing, or if a column has another type than the sink takes.
        """
        topic_column = None
        if topic is None:
            topic_column = _find(schema, "topic", ("string",))
            if topic_column is None:
                raise ColumnError(
                    "topic option required when no 'topic' attribute is present. Use the topic option for setting a "
                    "topic."
                )
        key = _find(schema, "key", _TEXT_OR_BYTES)
        value = _find(schema, "value", _TEXT_OR_BYTES)
        if value is None:
            raise ColumnError("Required attribute 'value' not found")
        return cls(
            value=value,
            key=key,
            topic=topic_column,
            headers=_find(schema, "headers", _HEADERS),
            partition=_find(schema, "partition", ("int",)),
        )


def _find(schema: StructType, name: str, types: tuple[str, ...]) -> int | None:
    for position, field in enumerate(schema.fields):
        if field.name != name:
            continue
        found = field.dataType.simpleString()
        if found not in types:
            raise ColumnError(f"{name} attribute unsupported type {found}. {name} must be a(n) {' or '.join(types)}")
        return position
    return None
