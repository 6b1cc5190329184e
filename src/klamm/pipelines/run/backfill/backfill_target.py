"""What a backfill writes to: a topic, files, or the sink of the live flow; and the refusal of places in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from klamm.client.cluster import Cluster
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.pipeline import Pipeline
from klamm.pipelines.declare.sinks import ToFiles, ToFormat, ToTopic
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.source_options import subscription_options
from klamm.spark.folders import absolute_location
from klamm.spark.source.options.kafka_options import parse_kafka_options
from klamm.spark.source.options.subscription import parse_subscription
from klamm.spark.source.planning.log_offsets import SubscribedOffsets

__all__ = ["LIVE", "Target", "has_records", "parse_target", "refuse_place_in_use", "target_sink"]

_TOPIC: Final = "topic"
_LIVE: Final = "live"
_WHOLE_PARTITIONS: Final = "live is for flows with to_files(…, partition_by=…), whose partitions it replaces whole"


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed `--into`."""

    kind: str
    """`topic`, `live`, or a format of Spark's writer."""
    name: str = ""
    """The topic by its full name, or the path; empty for `live`."""

    @property
    def is_topic(self) -> bool:
        """Whether the rows become records of a topic."""
        return self.kind == _TOPIC

    @property
    def is_live(self) -> bool:
        """Whether the rows replace partitions of the live flow's sink."""
        return self.kind == _LIVE

    def __str__(self) -> str:
        if self.is_live:
            return "the live sink"
        return f"topic {self.name}" if self.is_topic else f"{self.kind} in {self.name}"


LIVE: Final = Target(_LIVE)


def parse_target(text: str) -> Target:
    """Parses `topic:NAME`, `FORMAT:PATH` or `live`. A relative path begins at the working directory.

    Raises `PipelineError`.
    """
    if text == _LIVE:
        return LIVE
    kind, separator, name = text.partition(":")
    if not kind.isidentifier() or not separator or not name.strip() or name.startswith("//"):
        raise PipelineError(
            f"{text!r}: write topic:NAME, a format with a path such as parquet:/data/again, or live for the flow's sink"
        )
    return Target(kind, name if kind == _TOPIC else absolute_location(name))


def target_sink(flow: Flow, target: Target) -> ToTopic | ToFiles:
    """Returns the sink whose rows the backfill writes; keys, values and partitions are as the flow declares them.

    Raises `PipelineError` if the flow's own sink can't be replaced by partitions.
    """
    sink = flow.sink
    if target.is_live:
        if isinstance(sink, ToFiles) and sink.partition_by:
            return sink
        raise PipelineError(f"flow {flow.name}: {_WHOLE_PARTITIONS}")
    if target.is_topic:
        if isinstance(sink, ToTopic):
            return replace(sink, topic=target.name)
        return ToTopic(target.name, None, None, None, "exactly-once", {})
    if isinstance(sink, ToFiles):
        options = sink.options if sink.format == target.kind else {}
        return ToFiles(target.name, target.kind, sink.partition_by, options)
    return ToFiles(target.name, target.kind, (), {})


def refuse_place_in_use(place: Place, pipeline: Pipeline, flow: Flow, target: Target) -> None:
    """Raises `PipelineError` if the target is a topic or a folder that a flow of the pipeline writes or reads."""
    if target.is_topic:
        for source in flow.sources.values():
            options = {key.lower(): value for key, value in subscription_options(source).items()}
            subscription = parse_subscription(options)  # a declared name may be several, with commas
            if target.name in subscription.topics or subscription.fits(target.name):
                raise PipelineError(f"flow {flow.name} reads the topic {target.name}: a backfill can't write into it")
        for each, topic in _written_topics(place, pipeline):
            if topic == target.name:
                raise PipelineError(
                    f"flow {each.name} writes the topic {topic}, whose records a backfill would repeat: choose another "
                    f"topic. {_WHOLE_PARTITIONS}"
                )
    elif not target.is_live:
        for each in pipeline.flows.values():
            path = place.files_path(each.sink) if isinstance(each.sink, ToFiles | ToFormat) else None
            if path is not None and _overlap(absolute_location(path), target.name):
                raise PipelineError(
                    f"flow {each.name} writes files in {path}: choose a folder outside of it. To replace whole "
                    "partitions of it, write --into live"
                )


def has_records(place: Place, topic: str) -> bool:
    """Returns whether a topic exists and has records. Raises what the cluster raises."""
    client, _ = parse_kafka_options({key.lower(): value for key, value in place.kafka_options.items()})
    with closing(Cluster(client)) as cluster:
        log = SubscribedOffsets(cluster, parse_subscription({"subscribe": topic}))
        latest = log.latest()
        return bool(latest) and log.earliest(latest) != latest


def _written_topics(place: Place, pipeline: Pipeline) -> Iterator[tuple[Flow, str]]:
    for flow in pipeline.flows.values():
        if isinstance(flow.sink, ToTopic):
            yield flow, place.topic(flow.sink.topic)
        if flow.writes_dead_letters:
            yield flow, place.dead_letters_topic(flow)


def _overlap(one: str, other: str) -> bool:
    """Returns whether one of two folders is in the other, or both are the same."""
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)
