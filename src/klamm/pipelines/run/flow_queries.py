"""Starts the streaming queries of a flow: its own, and the one that writes its dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from klamm.pipelines.declare.bad_records import DeadLetters
from klamm.pipelines.declare.flow import Flow, takes_environment
from klamm.pipelines.declare.sinks import ToBatches, ToFiles, ToFormat, ToOrigins, ToTopic
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.dead_letter_headers import dead_letter_columns
from klamm.pipelines.run.flow_frames import RECORD, bad_records, flow_result
from klamm.pipelines.run.flow_identity import (
    keep_identity,
    keep_order_of_sources,
    refuse_changes,
    refuse_lost_records,
    refuse_other_order,
)
from klamm.pipelines.run.foreign_files import refuse_foreign_files
from klamm.pipelines.run.judgement import Judgement
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.plan_sources import order_of_sources
from klamm.pipelines.run.record_columns import record_columns
from klamm.pipelines.run.starting_offsets import starting_offsets
from klamm.pipelines.run.unfinished_files import remove_unfinished_files
from klamm.pipelines.run.writer_checks import refuse_wrong_topic_options, refuse_wrong_writer
from klamm.pipelines.run.written_topics import create_topic_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

__all__ = [
    "letters_options",
    "start_dead_letters",
    "start_flow",
    "topic_options",
    "topic_sink_options",
    "use_in_this_thread",
    "written_rows",
]

_LETTERS_LIMITS: Final = {"kafka.max.request.size": str(16 << 20)}
"""A record that its topic takes, with the headers of a dead letter: the limit is that of the topic of dead letters."""


def start_flow(spark: SparkSession, place: Place, flow: Flow, judgement: Judgement, *, once: bool) -> StreamingQuery:
    """Starts the flow's query; `judgement` is that of the run. Raises what is wrong with the flow or the cluster, as
    soon as that is known."""
    use_in_this_thread(spark)
    refuse_wrong_writer(spark, flow)
    refuse_changes(place, flow)
    rule = judgement.rule()
    refuse_lost_records(place, flow, rule)
    refuse_foreign_files(spark, place, flow)
    keep_identity(place, flow, rule)
    judgement.store_schemas()
    if flow.writes_dead_letters:
        # Stored before the flow moves on: its dead letters, which start later, begin where the flow is now.
        starting_offsets(place, flow, is_dead_letters=True)
    result = flow_result(spark, place, flow, starting_offsets(place, flow, is_dead_letters=False), judgement.decoders())
    order = order_of_sources(result, place, flow)
    refuse_other_order(place, flow, order)
    keep_order_of_sources(place, flow, order)
    rows = written_rows(result, flow)
    if isinstance(flow.sink, ToTopic):
        refuse_wrong_topic_options(topic_sink_options(place, flow.sink), place.checkpoint(flow.name))
        create_topic_for(place, place.topic(flow.sink.topic))
    writer = rows.writeStream.queryName(place.query_name(flow)).outputMode(flow.output_mode)
    return _start(_with_sink(writer, place, flow), place.checkpoint(flow.name), flow.every, once=once)


def start_dead_letters(
    spark: SparkSession, place: Place, flow: Flow, judgement: Judgement, *, once: bool
) -> StreamingQuery:
    """Starts the query that writes the flow's dead letters, exactly once, up to where the flow is."""
    use_in_this_thread(spark)
    refuse_changes(place, flow)
    refuse_lost_records(place, flow, judgement.rule())  # the flow has not started if it waits for the cluster
    starts = starting_offsets(place, flow, is_dead_letters=True)
    bad = bad_records(spark, place, flow, starts, judgement.decoders())
    options = letters_options(place, flow)
    refuse_wrong_topic_options(options, place.dead_letters_checkpoint(flow.name))
    create_topic_for(place, place.dead_letters_topic(flow))
    letters = dead_letter_columns(bad, place.query_name(flow.replays or flow))
    writer = letters.writeStream.queryName(place.dead_letters_query_name(flow))
    writer = writer.format("klamm").options(**options)
    # Without the flow's interval: each of its micro-batches is followed at once, the last one before a stop as well.
    return _start(writer, place.dead_letters_checkpoint(flow.name), None, once=once)


def written_rows(result: DataFrame, flow: Flow) -> DataFrame:
    """Returns the rows as the flow's sink takes them. Raises `DeclarationError`."""
    if isinstance(flow.sink, ToTopic):
        return record_columns(result, flow.sink, flow.name)
    if isinstance(flow.sink, ToBatches | ToOrigins):
        return result
    if isinstance(flow.sink, ToFiles) and (missing := set(flow.sink.partition_by) - set(result.columns)):
        raise DeclarationError(
            f"flow {flow.name}: partition_by names {', '.join(sorted(missing))}, and its function returns only "
            f"{', '.join(result.columns)}"
        )
    return result.drop(RECORD)


def topic_options(place: Place, topic: str, semantics: str) -> dict[str, str]:
    """Returns the options of a sink that writes to a topic."""
    return {**place.kafka_options, "topic": topic, "klamm.sink.semantics": semantics}


def topic_sink_options(place: Place, sink: ToTopic) -> dict[str, str]:
    """Returns all options of a flow's sink that writes to a topic, except for its checkpoint."""
    return {**sink.options, **topic_options(place, place.topic(sink.topic), sink.semantics)}


def letters_options(place: Place, flow: Flow) -> dict[str, str]:
    """Returns all options of the sink of a flow's dead letters, except for its checkpoint."""
    declared = flow.bad_records.options if isinstance(flow.bad_records, DeadLetters) else {}
    own = topic_options(place, place.dead_letters_topic(flow), "exactly-once")
    return {**_LETTERS_LIMITS, **declared, **own}


def _origins_options(place: Place, sink: ToOrigins) -> dict[str, str]:
    """Returns all options of the sink of a replay to the topics of the records, except for its checkpoint."""
    own = {"klamm.sink.semantics": "exactly-once", "klamm.sink.marker.topic": sink.marker_topic}
    return {**_LETTERS_LIMITS, **sink.options, **place.kafka_options, **own}


def _with_sink(writer: DataStreamWriter, place: Place, flow: Flow) -> DataStreamWriter:
    sink = flow.sink
    if isinstance(sink, ToTopic):
        options = topic_sink_options(place, sink)
        if flow.output_mode == "update":
            from klamm.spark import write_topic

            return writer.foreachBatch(write_topic(**options))
        return writer.format("klamm").options(**options)
    if isinstance(sink, ToBatches):
        return writer.foreachBatch(_batch_function(sink, place.environment))
    if isinstance(sink, ToOrigins):
        return writer.format("klamm").options(**_origins_options(place, sink))
    options = place.format_options(flow, sink) if isinstance(sink, ToFormat) else dict(sink.options)
    path = place.files_path(sink)
    if path is not None:
        options["path"] = path
    writer = writer.format(sink.format).options(**options)
    return writer.partitionBy(*sink.partition_by) if isinstance(sink, ToFiles) and sink.partition_by else writer


def _batch_function(sink: ToBatches, environment: str | None) -> Any:
    if not takes_environment(sink):
        return sink.function

    def write(frame: DataFrame, batch_id: int) -> None:
        sink.function(frame, batch_id, environment=environment)

    return write


def use_in_this_thread(spark: SparkSession) -> None:
    """Makes the session this thread's active one: a writer looks there for the formats of Python sinks."""
    session_class = type(spark)._get_j_spark_session_class(spark._jvm)  # as `createDataFrame` does
    session_class.setActiveSession(spark._jsparkSession)


def _start(writer: DataStreamWriter, checkpoint: str, every: str | None, *, once: bool) -> StreamingQuery:
    remove_unfinished_files(checkpoint)
    writer = writer.option("checkpointLocation", checkpoint)
    if once:
        writer = writer.trigger(availableNow=True)
    elif every is not None:
        writer = writer.trigger(processingTime=every)
    return writer.start()
