"""The options of `format("klamm")` for one source of a flow."""

from __future__ import annotations

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.topic_source import TopicSource
from klamm.pipelines.run.place import Place

__all__ = ["source_options", "subscription_options"]


def subscription_options(source: TopicSource) -> dict[str, str]:
    """Returns the options that choose the topics."""
    if source.pattern is not None:
        return {"subscribePattern": source.pattern}
    return {"subscribe": ",".join(source.topics)}


def source_options(
    place: Place, flow: Flow, parameter: str, *, starting_offsets: str | None, is_dead_letters: bool = False
) -> dict[str, str]:
    """Returns all options of a streaming read; `starting_offsets` is JSON, None where the checkpoint has them.

    The query for dead letters always reads headers, since it copies them. So does a replay, which finds the origin of
    a record there. The query for dead letters never reads beyond the flow; so it has no stop file, and ends after the
    flow.
    """
    source = flow.sources[parameter]
    options = {
        **place.kafka_options,
        **source.options,
        **subscription_options(source),
        "kafka.group.id": place.group(flow, parameter, is_dead_letters=is_dead_letters),
        "includeHeaders": "true" if source.headers or is_dead_letters or flow.replays is not None else "false",
    }
    if is_dead_letters:
        options["klamm.follow.checkpointLocation"] = place.checkpoint(flow.name)
    else:
        options["klamm.stop.file"] = place.stop_file(flow.name)
    if flow.letters_of is not None:
        # Dead letters are written in transactions. The next transaction writes the letters of an aborted one again.
        options["kafka.isolation.level"] = "read_committed"
    if source.max_records_per_batch is not None:
        options["maxOffsetsPerTrigger"] = str(source.max_records_per_batch)
    if starting_offsets is not None:
        options["startingOffsets"] = starting_offsets
    return options
