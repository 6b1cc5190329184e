"""`klamm.spark.write_topic`: writes the micro-batches of `foreachBatch` to topics.

Spark 4.3 refuses the output mode `update` for Python sinks, but `foreachBatch` takes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from klamm.spark.sink.sink_options import BATCH_ID_OPTION, QUERY_ID_OPTION, SinkOptions
from klamm.spark.source.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_topic"]

_QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
_RUN_ID_PROPERTY: Final = "spark.jobGroup.id"
_CHECKPOINT_OPTION: Final = "checkpointLocation"

_written: dict[tuple[str, str, str], tuple[str | None, int]] = {}
"""The run and micro-batch that this process has written last, by query, brokers and topic of the marker."""


def write_topic(**options: str | int | float | bool) -> Callable[[DataFrame, int], None]:
    """Returns a function for `foreachBatch` that writes each micro-batch with `format("klamm")` and these options.

        counts.writeStream.outputMode("update").foreachBatch(
            klamm.spark.write_topic(topic="counts", **{"kafka.bootstrap.servers": "localhost:9092"})
        )

    The writes carry the ids of the query and of the micro-batch, so they give the same guarantees as a streaming query
    with the same options. With `klamm.sink.semantics=exactly-once`, call the function once for each micro-batch: a
    second write with the same marker would look like a repetition, so it is refused. Raises `OptionError` for a wrong
    option.
    """
    texts = {name: _text(value) for name, value in options.items()}
    exactly_once = SinkOptions.parse(texts).exactly_once
    brokers = next((text for name, text in texts.items() if name.lower() == "kafka.bootstrap.servers"), "")

    def write(frame: DataFrame, batch_id: int) -> None:
        """Writes one micro-batch."""
        writer = frame.write.format("klamm").mode("append").options(**texts)
        query_id = _property(frame, _QUERY_ID_PROPERTY)
        if query_id is not None:
            writer = writer.option(QUERY_ID_OPTION, query_id).option(BATCH_ID_OPTION, batch_id)
        if exactly_once is None:
            writer.save()
            return
        if query_id is None:
            raise OptionError(
                "klamm.sink.semantics=exactly-once: write_topic can't learn which query calls it. It must be called "
                "by foreachBatch, and not in Spark Connect"
            )
        if exactly_once.checkpoint is None:
            writer = writer.option(_CHECKPOINT_OPTION, _checkpoint_of(frame, query_id))
        place = (query_id, brokers, exactly_once.marker_topic)
        present = (_property(frame, _RUN_ID_PROPERTY), batch_id)
        if _written.get(place) == present:
            raise OptionError(
                f"micro-batch {batch_id} of the query {query_id} is written twice with the same marker, so the second "
                "write would be dropped. Write all its rows at once, or set another klamm.sink.marker.topic for the "
                "second write"
            )
        writer.save()
        _written[place] = present

    return write


def _text(value: str | int | float | bool) -> str:
    """Returns an option's value as Spark passes it on."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _property(frame: DataFrame, name: str) -> str | None:
    """Returns a property of the query that calls `foreachBatch`; None in Spark Connect, which does not return it."""
    context = getattr(frame.sparkSession, "sparkContext", None)
    value: str | None = None if context is None else context.getLocalProperty(name)
    return value


def _checkpoint_of(frame: DataFrame, query_id: str) -> str:
    """Returns the checkpoint of a running query. Raises `OptionError` if Spark does not return it."""
    # The session of a micro-batch is a clone, which lists no queries. The state that all sessions share lists them.
    with contextlib.suppress(Exception):
        jvm = frame.sparkSession._jvm
        assert jvm is not None
        running = frame.sparkSession._jsparkSession.sharedState().activeStreamingQueries()
        return str(running.get(jvm.java.util.UUID.fromString(query_id)).resolvedCheckpointRoot())
    raise OptionError(
        "klamm.sink.semantics=exactly-once needs the checkpoint of the query, which this Spark does not tell: give "
        f"write_topic the option {_CHECKPOINT_OPTION} with the same value as the query"
    )
