"""`klamm.spark.write_topic`: writes the micro-batches of `foreachBatch` to topics.

Spark 4.3 refuses the output mode `update` for Python sinks, but `foreachBatch` takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from klamm.spark.sink.sink_options import BATCH_ID_OPTION, QUERY_ID_OPTION, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_topic"]

_QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"


def write_topic(**options: str | int | float | bool) -> Callable[[DataFrame, int], None]:
    """Returns a function for `foreachBatch` that writes each micro-batch with `format("klamm")` and these options.

        counts.writeStream.outputMode("update").foreachBatch(
            klamm.spark.write_topic(topic="counts", **{"kafka.bootstrap.servers": "localhost:9092"})
        )

    The writes carry the ids of the query and of the micro-batch, so they promise as much as a streaming query with the
    same options. Raises `OptionError` for a wrong option.
    """
    texts = {name: _text(value) for name, value in options.items()}
    SinkOptions.parse(texts)

    def write(frame: DataFrame, batch_id: int) -> None:
        """Writes one micro-batch."""
        writer = frame.write.format("klamm").mode("append").options(**texts)
        query_id = _query_id(frame)
        if query_id is not None:
            writer = writer.option(QUERY_ID_OPTION, query_id).option(BATCH_ID_OPTION, batch_id)
        writer.save()

    return write


def _text(value: str | int | float | bool) -> str:
    """Returns an option's value as Spark passes it on."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _query_id(frame: DataFrame) -> str | None:
    """Returns the id of the query that calls `foreachBatch`; None in Spark Connect, which does not tell it."""
    context = getattr(frame.sparkSession, "sparkContext", None)
    query_id: str | None = None if context is None else context.getLocalProperty(_QUERY_ID_PROPERTY)
    return query_id
