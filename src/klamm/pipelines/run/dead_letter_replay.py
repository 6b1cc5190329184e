"""Derives from a flow the flow that reads its dead letters: after a correction of the code, or of the data's producer.

The replay is a flow with a group, checkpoints and a status of its own, so each dead letter is replayed once, exactly
once into topics. A record that is still bad becomes a dead letter again, at the end of the topic, where the next replay
finds it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from klamm.pipelines.declare.bad_records import DeadLetters
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.sinks import ToBatches, ToFiles, ToOrigins
from klamm.pipelines.declare.topic_source import TopicSource
from klamm.pipelines.decoders.raw import raw
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.flow_frames import flow_result
from klamm.pipelines.run.operations_with_state import operations_with_state
from klamm.pipelines.run.pinned_decoders import pin_all
from klamm.pipelines.run.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["refuse_state", "replay_flow", "return_flow", "state_operators"]

_INSTEAD: Final = "With --to-source its dead letters go to their topics again, where the flow reads them"


def replay_flow(place: Place, flow: Flow) -> Flow:
    """Returns the flow that decodes the dead letters again and writes to the flow's sink.

    Raises `PipelineError` for a flow without dead letters, with several sources, or with a sink that tells
    micro-batches by their numbers alone, which are those of the running flow.
    """
    _require_dead_letters(flow)
    if flow.has_several_sources:
        raise PipelineError(f"flow {flow.name} has several sources, so it can't be replayed alone. {_INSTEAD}")
    if isinstance(flow.sink, ToFiles | ToBatches):
        what = "files" if isinstance(flow.sink, ToFiles) else "a function"
        raise PipelineError(
            f"flow {flow.name} writes to {what}, which would take the replay's micro-batches for repetitions of its "
            f"own. {_INSTEAD}"
        )
    ((parameter, source),) = flow.sources.items()
    letters = replace(source, topics=(place.dead_letters_topic(flow),), pattern=None, start="earliest")
    assert isinstance(flow.bad_records, DeadLetters)
    topic = flow.bad_records.topic or f"{place.pipeline}.{flow.name}.dead-letters"
    return replace(
        flow,
        name=f"{flow.name}.replay",
        sources={parameter: letters},
        bad_records=replace(flow.bad_records, topic=topic),
        every=None,
        replays=flow,
        letters_of=place.query_name(flow),
    )


def return_flow(place: Place, flow: Flow) -> Flow:
    """Returns the flow that writes the dead letters to the topics they come from, as they were.

    Raises `PipelineError` for a flow without dead letters.
    """
    _require_dead_letters(flow)
    topic = place.dead_letters_topic(flow)
    options = next(iter(flow.sources.values())).options
    source = TopicSource((topic,), None, raw(), "earliest", "keep", True, None, options)
    own = Flow(
        name=f"{flow.name}.to-source",
        function=_as_they_were,
        sources={"letters": source},
        sink=ToOrigins(topic, flow.bad_records.options if isinstance(flow.bad_records, DeadLetters) else {}),
        checks={},
        bad_records="drop",
        output_mode="append",
        every=None,
    )
    return replace(own, replays=own, letters_of=place.query_name(flow))


def refuse_state(spark: SparkSession, place: Place, flow: Flow) -> None:
    """Raises `PipelineError` if a replay's function has state: its state is not that of the running flow."""
    if found := state_operators(spark, place, flow):
        assert flow.replays is not None
        raise PipelineError(
            f"flow {flow.replays.name} has state ({', '.join(found)}), which a replay alone does not have. {_INSTEAD}"
        )


def state_operators(spark: SparkSession, place: Place, flow: Flow) -> list[str]:
    """Returns Spark's names of the operations with state in the flow's query."""
    result = flow_result(spark, place, flow, dict.fromkeys(flow.sources), pin_all(spark, place, flow))
    return sorted(operations_with_state(result))


def _require_dead_letters(flow: Flow) -> None:
    if not flow.writes_dead_letters:
        raise PipelineError(f"flow {flow.name} writes no dead letters: its bad records {flow.bad_records}")


def _as_they_were(letters: DataFrame) -> DataFrame:
    return letters.selectExpr("_record.topic AS topic", "_record.key AS key", "value", "_record.headers AS headers")
