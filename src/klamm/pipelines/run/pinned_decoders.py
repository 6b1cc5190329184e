"""The decoders of a flow's sources with fixed schemas, stored next to the flow's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from klamm.client.cluster import Cluster
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.decoders.decoder import DecodingPlace, PinnedDecoder
from klamm.pipelines.decoders.topic_sample import sample_values
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.source_options import source_options
from klamm.spark.folders import folder_at
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.planning.log_offsets import SubscribedOffsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pin", "pin_all", "store_schemas"]

_FILE: Final = "schema.json"


def pin_all(spark: SparkSession, place: Place, flow: Flow) -> dict[str, PinnedDecoder]:
    """Returns the decoder of each source. Raises what `pin` raises."""
    return {parameter: pin(spark, place, flow, parameter) for parameter in flow.sources}


def pin(spark: SparkSession, place: Place, flow: Flow, parameter: str) -> PinnedDecoder:
    """Returns the decoder of a source with the stored schema, else with one that is determined now. Stores nothing.

    Raises `DecoderError`, `DeclarationError` if the stored schemas are damaged, what the cluster raises, and `OSError`.
    """
    flow = flow.replays or flow  # a replay decodes as the flow does
    stored = _stored(place, flow)
    source, options = flow.sources[parameter], source_options(place, flow, parameter, starting_offsets=None)
    decoding = DecodingPlace(
        topics=source.topics or _topics(options),
        sample=partial(sample_values, spark, options),
        stored=stored.get(parameter, {}),
    )
    return source.decode.pin(decoding)


def store_schemas(place: Place, flow: Flow, decoders: Mapping[str, PinnedDecoder]) -> None:
    """Stores what fixes the schemas of a flow's decoders. Raises `OSError`."""
    flow = flow.replays or flow
    stored = _stored(place, flow)
    if stored != (wanted := {**stored, **{parameter: each.stored for parameter, each in decoders.items()}}):
        folder_at(place.flow_folder(flow.name)).replace(_FILE, json.dumps(wanted, indent=2).encode())


def _topics(options: Mapping[str, str]) -> list[str]:
    """Returns the topics that match a pattern now."""
    parsed = SourceOptions.for_stream(options)
    with closing(Cluster(parsed.client)) as cluster:
        return sorted({key.topic for key in SubscribedOffsets(cluster, parsed.subscription).latest()})


def _stored(place: Place, flow: Flow) -> dict[str, dict[str, Any]]:
    content = folder_at(place.flow_folder(flow.name)).read(_FILE)
    try:
        return {} if content is None else {key: dict(value) for key, value in json.loads(content).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise DeclarationError(
            f"flow {flow.name}: {place.flow_folder(flow.name)}/{_FILE} is damaged: {error}. Delete this file: the "
            "schemas are then determined again"
        ) from None
