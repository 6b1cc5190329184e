"""Checks a flow without running it: its sources, offsets and columns, its sink, and what would fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from klamm.client.errors import GaveUp
from klamm.errors import KlammError
from klamm.pipelines.declare.flow import Flow, takes_environment
from klamm.pipelines.declare.sinks import ToBatches, ToFormat, ToOrigins, ToTopic
from klamm.pipelines.run.checkpoint_reader import end_of_finished, read_state
from klamm.pipelines.run.error_texts import one_line
from klamm.pipelines.run.flow_frames import flow_result
from klamm.pipelines.run.flow_identity import refuse_changes, refuse_lost_records, refuse_other_order
from klamm.pipelines.run.flow_queries import letters_options, topic_sink_options, use_in_this_thread, written_rows
from klamm.pipelines.run.foreign_files import refuse_foreign_files
from klamm.pipelines.run.judgement import Judgement
from klamm.pipelines.run.operations_with_state import problem_of_state_store
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.plan_sources import order_of_sources
from klamm.pipelines.run.starting_offsets import log_of, resolve_start, stored_start
from klamm.pipelines.run.writer_checks import refuse_wrong_topic_options, refuse_wrong_writer
from klamm.pipelines.run.written_topics import topic_exists
from klamm.protocol.types import Offset
from klamm.spark.sink.sink_columns import SinkColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FlowCheck", "SourceCheck", "check_flow"]

_CHECKPOINT: Final = "the checkpoint"


@dataclass(slots=True)
class SourceCheck:
    """One source of a flow."""

    parameter: str
    topics: str
    decoder: str
    group: str
    partitions: int | None = None
    starts_at: str | None = None
    """The start of the next run: the checkpoint, or the declared start."""
    to_read: int | None = None
    """The number of offsets between `starts_at` and the present end of the log."""
    columns: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FlowCheck:
    """A flow, as far as it could be checked."""

    flow: str
    sources: list[SourceCheck] = field(default_factory=list)
    sink: str | None = None
    columns: str | None = None
    """The columns that the sink writes."""
    bad_records: str | None = None
    problems: list[str] = field(default_factory=list)
    """The errors that a run would have."""
    warnings: list[str] = field(default_factory=list)


def check_flow(spark: SparkSession, place: Place, flow: Flow) -> FlowCheck:
    """Returns what a run of the flow would do. Writes nothing, and raises nothing: problems are in the result.

    If the cluster does not answer within `default.api.timeout.ms`, the check ends with this problem.
    """
    check = FlowCheck(flow.name)
    check.sources.extend(
        SourceCheck(parameter, str(source), source.decode.name, place.group(flow, parameter))
        for parameter, source in flow.sources.items()
    )
    use_in_this_thread(spark)
    for step in _steps(check, spark, place, flow):
        try:
            step()
        except GaveUp as error:
            check.problems.append(str(error))
            return check  # The next step that asks the cluster would wait as long, for the same answer.
        except KlammError as error:
            check.problems.append(str(error))
        except Exception as error:  # the flow's own code may raise anything
            check.problems.append(one_line(f"{type(error).__name__}: {error}"))
    return check


def _steps(check: FlowCheck, spark: SparkSession, place: Place, flow: Flow) -> Iterator[Callable[[], None]]:
    """Yields the parts of a check. The last ones need a flow without problems."""
    judgement = Judgement(spark, place, flow)
    yield lambda: refuse_wrong_writer(spark, flow)
    yield lambda: refuse_changes(place, flow)
    yield lambda: refuse_foreign_files(spark, place, flow)
    yield lambda: _describe_sink(check, place, flow)
    for source in check.sources:
        yield partial(_check_offsets, source, place, flow)
        yield partial(_check_schema, source, judgement)
    if not check.problems:
        yield lambda: refuse_lost_records(place, flow, judgement.rule())
    if not check.problems:
        yield lambda: _check_rows(check, spark, place, flow, judgement)


def _check_offsets(source: SourceCheck, place: Place, flow: Flow) -> None:
    parameter = source.parameter
    _, ends = log_of(place, flow, parameter)
    source.partitions = len(ends)
    starts: Mapping[Any, Offset]
    if read_state(place.checkpoint(flow.name)).finished is not None:
        source.starts_at, starts = _CHECKPOINT, end_of_finished(place.checkpoint(flow.name))
    elif (stored := stored_start(place, flow, parameter)) is not None:
        source.starts_at, starts = stored
    else:
        source.starts_at, starts = str(flow.sources[parameter].start), resolve_start(place, flow, parameter)
    source.to_read = sum(max(0, end - starts.get(key, Offset(0))) for key, end in ends.items())


def _check_schema(source: SourceCheck, judgement: Judgement) -> None:
    pinned = judgement.decoder(source.parameter)
    source.columns = _columns(pinned.schema)
    source.notes.extend(pinned.notes)


def _describe_sink(check: FlowCheck, place: Place, flow: Flow) -> None:
    sink = flow.sink
    if isinstance(sink, ToTopic):
        topic = place.topic(sink.topic)
        check.sink = f"topic {topic}, {sink.semantics}"
        _warn_of_missing(check, place, topic)
    elif isinstance(sink, ToBatches):
        check.sink = f"function {getattr(sink.function, '__name__', repr(sink.function))}"
        if place.environment is not None and not takes_environment(sink):
            check.warnings.append(
                "the function of to_batches() has no parameter `environment`: it writes to the same place in each "
                "environment"
            )
    elif not isinstance(sink, ToOrigins):
        if isinstance(sink, ToFormat):
            place.format_options(flow, sink)
        path = place.files_path(sink)
        check.sink = sink.format if path is None else f"{sink.format} in {path}"
    if flow.writes_dead_letters:
        topic = place.dead_letters_topic(flow)
        check.bad_records = f"topic {topic}"
        refuse_wrong_topic_options(letters_options(place, flow), place.dead_letters_checkpoint(flow.name))
        _warn_of_missing(check, place, topic)
    else:
        check.bad_records = "dropped and counted" if flow.bad_records == "drop" else "fail the flow"


def _warn_of_missing(check: FlowCheck, place: Place, topic: str) -> None:
    if not topic_exists(place, topic):
        check.warnings.append(f"the topic {topic} does not exist; a run creates it")


def _check_rows(check: FlowCheck, spark: SparkSession, place: Place, flow: Flow, judgement: Judgement) -> None:
    result = flow_result(spark, place, flow, dict.fromkeys(flow.sources), judgement.decoders())
    refuse_other_order(place, flow, order_of_sources(result, place, flow))
    rows = written_rows(result, flow)
    check.columns = _columns(rows.schema)
    if isinstance(flow.sink, ToTopic):
        refuse_wrong_topic_options(topic_sink_options(place, flow.sink), place.checkpoint(flow.name))
        SinkColumns.of(rows.schema, place.topic(flow.sink.topic))
    _check_output_mode(rows, flow)
    if (problem := problem_of_state_store(rows, place.checkpoint(flow.name))) is not None:
        check.problems.append(problem)


def _check_output_mode(rows: DataFrame, flow: Flow) -> None:
    """Raises what Spark raises when a query starts with an output mode that its operations do not allow."""
    jvm: Any = rows.sparkSession._jvm
    sql = jvm.org.apache.spark.sql
    mode = sql.catalyst.streaming.InternalOutputModes.apply(flow.output_mode)
    sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(rows._jdf.queryExecution().analyzed(), mode)


def _columns(schema: Any) -> str:
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in schema.fields)
