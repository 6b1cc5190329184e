"""`klamm.spark.write_topic`: writes the micro-batches of `foreachBatch` to topics.

Spark 4.3 refuses the output mode `update` for Python sinks, but `foreachBatch` takes it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.spark.sink.sink_options import BATCH_ID_OPTION, QUERY_ID_OPTION, SinkOptions
from klamm.spark.source.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_topic"]

_QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
_RUN_ID_PROPERTY: Final = "spark.jobGroup.id"
_CHECKPOINT_OPTION: Final = "checkpointLocation"


class _Attempt(NamedTuple):
    """A write of a micro-batch that this process has begun."""

    run_id: str | None
    batch_id: int
    options: frozenset[tuple[str, str]]
    has_failed: bool = False
    """Whether it ended with an error. Its rows may have landed nevertheless: an answer may be lost."""

    def may_precede(self, other: _Attempt) -> bool:
        """Returns whether `other` may be written after this attempt: in another micro-batch, or as its repetition."""
        if (self.run_id, self.batch_id) != (other.run_id, other.batch_id):
            return True
        return self.has_failed and self.options == other.options


_Place = tuple[str, str | None, str]
"""Where a marker is: the query, the id of the cluster, and the topic of the marker."""

_attempts: dict[_Place, _Attempt] = {}
"""The last attempt of this process in each place."""
_attempts_lock: Final = threading.Lock()


def write_topic(**options: str | int | float | bool) -> Callable[[DataFrame, int], None]:
    """Returns a function for `foreachBatch` that writes each micro-batch with `format("klamm")` and these options.

        counts.writeStream.outputMode("update").foreachBatch(
            klamm.spark.write_topic(topic="counts", **{"kafka.bootstrap.servers": "localhost:9092"})
        )

    The writes carry the ids of the query and of the micro-batch, so they give the same guarantees as a streaming query
    with the same options. With `klamm.sink.semantics=exactly-once`, call the function once for each micro-batch: a
    second write with the same marker would look like a repetition, so it is refused. A write that failed may be
    repeated with the same rows. Raises `OptionError` for a wrong option.
    """
    texts = {name: _text(value) for name, value in options.items()}
    parsed = SinkOptions.parse(texts)
    exactly_once = parsed.exactly_once

    def write(frame: DataFrame, batch_id: int) -> None:
        """Writes one micro-batch. Raises `OptionError`, and the errors of the client if no broker can be reached."""
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
        # The addresses don't identify the cluster: two lists of its brokers, or of its listeners, have other texts.
        place = (query_id, _cluster_id(parsed.producer.client), exactly_once.marker_topic)
        attempt = _Attempt(_property(frame, _RUN_ID_PROPERTY), batch_id, frozenset(texts.items()))
        _begin(place, attempt)
        try:
            writer.save()
        except BaseException:
            _attempts[place] = attempt._replace(has_failed=True)
            raise

    return write


def _begin(place: _Place, attempt: _Attempt) -> None:
    """Notes an attempt. Raises `OptionError` for a second write of the same micro-batch."""
    with _attempts_lock:
        last = _attempts.get(place)
        if last is None or last.may_precede(attempt):
            _attempts[place] = attempt
            return
    raise OptionError(
        f"micro-batch {attempt.batch_id} of the query {place[0]} is written twice with the same marker, so the second "
        "write could be dropped. Write all its rows at once, or set another klamm.sink.marker.topic for the second "
        "write"
    )


@lru_cache(maxsize=16)
def _cluster_id(config: ClientConfig) -> str | None:
    """Requests the id of the cluster; None if its brokers are too old to have one. Remembers the answer."""
    cluster = Cluster(config)
    try:
        cluster.refresh([])
        return cluster.cluster_id
    finally:
        cluster.close()


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
