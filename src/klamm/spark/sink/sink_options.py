"""The options of a writer with `format("klamm")`: those of Spark's own Kafka sink. No option is ignored without a
warning or an error."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from klamm.client.producer.producer_config import ProducerConfig
from klamm.config.nearest import nearest
from klamm.spark.sink.exactly_once_options import EXACTLY_ONCE_OPTIONS, ExactlyOnceOptions
from klamm.spark.sink.producer_options import parse_producer_options
from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.kafka_options import KAFKA_PREFIX
from klamm.spark.source.options.klamm_options import KLAMM_PREFIX
from klamm.spark.source.options.option_values import parse_truth, parse_whole, parse_word
from klamm.spark.source.options.options import SOURCE_OPTIONS

__all__ = ["BATCH_ID_OPTION", "QUERY_ID_OPTION", "MicroBatch", "SinkOptions"]

_logger = logging.getLogger(__name__)

QUERY_ID_OPTION: Final = "klamm.sink.queryId"
BATCH_ID_OPTION: Final = "klamm.sink.batchId"
"""`klamm.spark.write_topic` sets these two."""

_SINK_OPTIONS: Final = {"topic": "topic", "includeheaders": "includeHeaders"}
_KLAMM_OPTIONS: Final = {
    name.lower(): name
    for name in (
        "klamm.partitioner",
        "klamm.sink.semantics",
        *EXACTLY_ONCE_OPTIONS,
        QUERY_ID_OPTION,
        BATCH_ID_OPTION,
    )
}
# Spark reads these itself, and passes them on to the sink.
_SPARKS_OWN: Final = frozenset(
    {
        "asyncprogresstrackingcheckpointintervalms",
        "asyncprogresstrackingenabled",
        "checkpointlocation",
        "queryname",
    }
)


class MicroBatch(NamedTuple):
    """The micro-batch that a batch write of `foreachBatch` belongs to."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The validated options of one batch write or streaming query."""

    producer: ProducerConfig
    topic: str | None = None
    """The topic of all rows; None: the column `topic`."""
    ignores_keys: bool = False
    """Whether records are distributed as if they had no keys."""
    exactly_once: ExactlyOnceOptions | None = None
    """None: at least once."""
    micro_batch: MicroBatch | None = None
    """Set by `klamm.spark.write_topic`."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Parses the options of a writer. Keys are case-insensitive. Raises `OptionError`.

        A process parses equal options once: a stream makes two writers for each micro-batch, which would repeat each
        warning.
        """
        given = {key.lower(): value for key, value in options.items()}
        micro_batch = _take_micro_batch(given)
        return dataclasses.replace(_parse_once(frozenset(given.items())), micro_batch=micro_batch)


@lru_cache(maxsize=16)
def _parse_once(items: frozenset[tuple[str, str]]) -> SinkOptions:
    given = dict(items)
    _refuse_unknown(given)
    # Spark writes the column `headers` with both values, but refuses other words than true and false.
    parse_truth("includeHeaders", given.get("includeheaders", "false"))
    topic = _parse_topic(given)
    exactly_once = ExactlyOnceOptions.parse(given, topic) if _is_exactly_once(given) else None
    if exactly_once is None:
        ExactlyOnceOptions.refuse(given)
    producer, ignores_keys = parse_producer_options(given, is_exactly_once=exactly_once is not None)
    partitioner = parse_word(
        "klamm.partitioner", given.get("klamm.partitioner", "murmur2"), "murmur2", "consistent_random"
    )
    return SinkOptions(
        producer=dataclasses.replace(producer, partitioner=partitioner),  # type: ignore[arg-type]
        topic=topic,
        ignores_keys=ignores_keys,
        exactly_once=exactly_once,
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {**_SINK_OPTIONS, **_KLAMM_OPTIONS}
    for key in given:
        if key.startswith(KAFKA_PREFIX) or key in known or key in _SPARKS_OWN:
            continue
        if key == "path":
            raise OptionError("save() and start() take no path here: the option 'topic' names the topic")
        if key in SOURCE_OPTIONS or key.startswith("klamm.group."):
            raise OptionError(f"the option {key!r} is for reading: a writer does not take it")
        meant = nearest(key, known)
        if meant is not None:
            hint = f"did you mean {known[meant]}?"
        elif key.startswith(KLAMM_PREFIX):
            hint = f"there are {', '.join(_KLAMM_OPTIONS.values())}"
        else:
            hint = "its options are those of Spark's Kafka sink"
        raise OptionError(f'unknown option {key!r} of a writer with format("klamm"): {hint}')


def _parse_topic(given: Mapping[str, str]) -> str | None:
    topic = given.get("topic")
    if topic is None:
        return None
    if not topic.strip():
        raise OptionError("the option 'topic' is empty")
    return topic.strip()


def _is_exactly_once(given: Mapping[str, str]) -> bool:
    words = given.get("klamm.sink.semantics", "at-least-once")
    return parse_word("klamm.sink.semantics", words, "at-least-once", "exactly-once") == "exactly-once"


def _take_micro_batch(given: dict[str, str]) -> MicroBatch | None:
    """Removes the options that name a micro-batch, and parses them."""
    query_id, batch_id = given.pop(QUERY_ID_OPTION.lower(), None), given.pop(BATCH_ID_OPTION.lower(), None)
    if query_id is None and batch_id is None:
        return None
    if not query_id or batch_id is None:
        raise OptionError(f"{QUERY_ID_OPTION} and {BATCH_ID_OPTION} belong together: klamm.spark.write_topic sets them")
    return MicroBatch(query_id, parse_whole(BATCH_ID_OPTION, batch_id))
