"""The rows that a flow makes of a range of its topics, as a batch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from klamm.errors import KlammError
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import DeclarationError, PipelineError
from klamm.pipelines.run.backfill.backfill_range import SourceRange, batch_options
from klamm.pipelines.run.backfill.backfill_record import Counts
from klamm.pipelines.run.error_texts import one_line
from klamm.pipelines.run.flow_frames import function_result, good_records, observation_name
from klamm.pipelines.run.flow_queries import written_rows
from klamm.pipelines.run.pinned_decoders import pin
from klamm.pipelines.run.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

    from klamm.pipelines.declare.sinks import ToFiles, ToTopic

__all__ = ["BackfillRows", "rows_of_range"]

_OF_STREAMS: Final = {
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
}
_ROWS: Final = "klamm.rows"
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class BackfillRows:
    """The rows, and what counts them while they are written."""

    frame: DataFrame
    sources: Mapping[str, Observation]
    written: Observation

    def counts(self) -> Counts:
        """Returns the counts after the one write of the rows. Waits a few seconds for Spark to tell them."""
        deadline = time.monotonic() + _PATIENCE_S
        sources = [_values(each, deadline) for each in self.sources.values()]
        rows = _values(self.written, deadline)
        known = [each for each in sources if each is not None]
        is_known = len(known) == len(sources)
        return Counts(
            records=sum(each["records"] for each in known) if is_known else None,
            bad_records=sum(each["bad"] for each in known) if is_known else None,
            rows=None if rows is None else rows["rows"],
        )


def rows_of_range(
    spark: SparkSession,
    place: Place,
    flow: Flow,
    sink: ToTopic | ToFiles,
    ranges: Mapping[str, SourceRange],
    *,
    where: str | None = None,
) -> BackfillRows:
    """Returns the rows that the sink takes, of exactly these offsets. `where` is a SQL expression on the flow's result.

    Raises `PipelineError` for a function that works on streams only, or that raises an error.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observations = {parameter: Observation(observation_name(parameter)) for parameter in flow.sources}
    try:
        frames = {}
        for parameter in flow.sources:
            options = batch_options(place, flow, parameter, ranges[parameter])
            records = spark.read.format("klamm").options(**options).load()
            decoder = pin(spark, place, flow, parameter)
            frames[parameter] = good_records(records, decoder, flow, parameter, observations[parameter])
        result = function_result(flow, frames)
        _refuse_streams_only(flow, result)
        if where is not None:
            result = result.where(where)
        rows = written_rows(result, replace(flow, sink=sink))
    except KlammError:
        raise
    except Exception as error:  # the flow's own code may raise anything
        raise DeclarationError(f"flow {flow.name}: {one_line(f'{type(error).__name__}: {error}')}") from error
    written = Observation(_ROWS)
    return BackfillRows(rows.observe(written, F.count(F.lit(1)).alias("rows")), observations, written)


def _refuse_streams_only(flow: Flow, result: DataFrame) -> None:
    if result.isStreaming:
        raise PipelineError(
            f"flow {flow.name}: its function returns a stream of its own, so its rows are not those of a range"
        )
    if found := sorted(_nodes(result._jdf.queryExecution().analyzed()) & _OF_STREAMS.keys()):
        raise PipelineError(
            f"flow {flow.name} uses {', '.join(_OF_STREAMS[each] for each in found)}, which Spark has for streams "
            "only, so it can't be backfilled as it is. Its function can ask the frame's isStreaming, and take another "
            "way for a batch"
        )


def _nodes(plan: Any) -> set[str]:
    children = plan.children()
    return {str(plan.nodeName())}.union(*(_nodes(children.apply(index)) for index in range(children.size())))


def _values(observation: Observation, deadline: float) -> dict[str, Any] | None:
    """Returns the values of an observation; None if Spark does not tell them.

    Spark leaves a frame out of the plan if no row of it can pass, and `Observation.get` would wait for ever.
    """
    future: Any = observation._jo.future() if observation._jo is not None else None
    while future is not None and not future.isCompleted():
        if time.monotonic() > deadline:
            return None
        time.sleep(0.02)
    return None if future is None else dict(observation.get)
