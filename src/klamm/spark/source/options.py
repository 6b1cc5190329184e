"""The options of `format("klamm")`: those of Spark's own Kafka source, each honoured or refused, none ignored in
silence."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from klamm.client.config import HONOURED_KEYS, ClientConfig, is_security_key
from klamm.client.errors import ClientConfigError
from klamm.protocol.types import TopicPartition
from klamm.spark.source.errors import OptionError
from klamm.spark.source.group_options import check_batch_group, check_group_options
from klamm.spark.source.klamm_options import KLAMM_PREFIX, KlammOptions
from klamm.spark.source.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    PartitionOffsets,
    parse_assignment,
    parse_offsets,
)
from klamm.spark.source.option_values import parse_positive, parse_truth

__all__ = ["KAFKA_PREFIX", "OffsetLimit", "SourceOptions", "Subscription"]

_logger = logging.getLogger("klamm.spark")

OffsetLimit = Literal["earliest", "latest", "committed"] | PartitionOffsets
"""Where to start or end: a word for all partitions, or an offset for each (-1 latest, -2 earliest). `committed`, which
is only for the start, is where the group stands."""

KAFKA_PREFIX: Final = "kafka."
_STRATEGIES: Final = ("assign", "subscribe", "subscribepattern")
_HONOURED: Final = frozenset(
    {
        "assign",
        "endingoffsets",
        "failondataloss",
        "includeheaders",
        "maxoffsetspertrigger",
        "startingoffsets",
        "subscribe",
    }
)
_NOT_YET: Final = {
    "endingoffsetsbytimestamp": "endingOffsetsByTimestamp",
    "endingtimestamp": "endingTimestamp",
    "maxrecordsperpartition": "maxRecordsPerPartition",
    "maxtriggerdelay": "maxTriggerDelay",
    "minoffsetspertrigger": "minOffsetsPerTrigger",
    "minpartitions": "minPartitions",
    "startingoffsetsbytimestamp": "startingOffsetsByTimestamp",
    "startingoffsetsbytimestampstrategy": "startingOffsetsByTimestampStrategy",
    "startingtimestamp": "startingTimestamp",
    "subscribepattern": "subscribePattern",
}
# They tune the Java consumer that Spark's source has inside; klamm's client has other means.
_WITHOUT_EFFECT: Final = {
    "fetchoffset.numretries": "kafka.default.api.timeout.ms says how long errors that pass are retried",
    "fetchoffset.retryintervalms": "kafka.retry.backoff.ms says how long to wait between attempts",
    "groupidprefix": "no group is made up; kafka.group.id names the group that the query commits to",
    "kafkaconsumer.polltimeoutms": "kafka.default.api.timeout.ms says how long a partition may bring nothing",
}
_REFUSED_AS_IN_SPARK: Final = {
    "auto.offset.reset": "set the source option 'startingOffsets' to 'earliest' or 'latest' to say where a new query "
    "starts; a query that is resumed goes on where it left off",
    "enable.auto.commit": "set 'kafka.group.id', and each finished micro-batch is committed to that group",
    "interceptor.classes": "interceptors are Java classes that may change records",
    "key.deserializer": "keys are binary; use DataFrame operations to deserialize them",
    "value.deserializer": "values are binary; use DataFrame operations to deserialize them",
}
# Consumer configuration that has no meaning for a reader that is no member of its group and has no Java inside.
_CONSUMER_KEYS_WITHOUT_EFFECT: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "client.rack",
        "config.providers",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
    }
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is read: all partitions of some topics, or some partitions."""

    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one query, checked."""

    client: ClientConfig
    subscription: Subscription
    group_id: str | None
    starting_offsets: OffsetLimit
    ending_offsets: OffsetLimit
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    include_headers: bool
    klamm: KlammOptions
    """What begins with `klamm.`."""

    @classmethod
    def for_batch(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options of a batch read. Keys are case-insensitive. Raises `OptionError`."""
        given = _lower(options)
        parsed = cls._parse(given, starting_offsets="earliest")
        check_batch_group(parsed.klamm)
        if "maxoffsetspertrigger" in given:
            _logger.warning("maxOffsetsPerTrigger option ignored in batch queries")
        if _names(parsed.starting_offsets, "latest", LATEST_OFFSET):
            raise OptionError("startingOffsets: starting offset can't be latest for batch queries")
        if _names(parsed.ending_offsets, "earliest", EARLIEST_OFFSET):
            raise OptionError("endingOffsets: ending offset can't be earliest for batch queries")
        return parsed

    @classmethod
    def for_stream(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options of a streaming query. Keys are case-insensitive. Raises `OptionError`."""
        given = _lower(options)
        if "endingoffsets" in given:
            raise OptionError("endingOffsets: ending offset not valid in streaming queries")
        return cls._parse(given, starting_offsets="latest")

    @classmethod
    def check(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options, before it is known whether a batch or a stream is read. Raises `OptionError`."""
        return cls._parse(_lower(options), starting_offsets="earliest")

    @classmethod
    def _parse(cls, given: Mapping[str, str], *, starting_offsets: OffsetLimit) -> SourceOptions:
        _refuse_unknown(given)
        client, group_id = _client_options(given)
        check_group_options(given, group_id)
        return cls(
            client=client,
            subscription=_subscription(given),
            group_id=group_id,
            starting_offsets=_offset_limit("startingOffsets", given, starting_offsets),
            ending_offsets=_offset_limit("endingOffsets", given, "latest"),
            max_offsets_per_trigger=_positive("maxOffsetsPerTrigger", given),
            fail_on_data_loss=_truth("failOnDataLoss", given, default=True),
            include_headers=_truth("includeHeaders", given, default=False),
            klamm=KlammOptions.parse(given),
        )


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}


def _names(limit: OffsetLimit, word: str, number: int) -> bool:
    return limit == word or (isinstance(limit, dict) and number in limit.values())


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for key in given:
        if key.startswith((KAFKA_PREFIX, KLAMM_PREFIX)) or key in _HONOURED:
            continue
        if key in _NOT_YET:
            raise OptionError(f"the option {_NOT_YET[key]!r} of Spark's Kafka source is not supported yet")
        if key in _WITHOUT_EFFECT:
            _logger.warning("the option %r has no effect here: %s", key, _WITHOUT_EFFECT[key])
            continue
        raise OptionError(f'unknown option {key!r}; the options of format("klamm") are those of Spark\'s Kafka source')


def _subscription(given: Mapping[str, str]) -> Subscription:
    strategies = [key for key in _STRATEGIES if key in given]
    names = "assign, subscribe, subscribePattern"
    if not strategies:
        raise OptionError(f"One of the following options must be specified for Kafka source: {names}")
    if len(strategies) > 1:
        raise OptionError(f"Only one of the following options can be specified for Kafka source: {names}")
    if strategies[0] == "assign":
        return Subscription(partitions=parse_assignment(given["assign"]))
    topics = tuple(dict.fromkeys(filter(None, (topic.strip() for topic in given["subscribe"].split(",")))))
    if not topics:
        raise OptionError(
            f"No topics to subscribe to as specified value for option 'subscribe' is '{given['subscribe']}'"
        )
    return Subscription(topics=topics)


def _client_options(given: Mapping[str, str]) -> tuple[ClientConfig, str | None]:
    """The client's settings and the group to commit to, from the options that begin with `kafka.`."""
    passed: dict[str, str] = {}
    group_id = None
    for option, value in given.items():
        key = option.removeprefix(KAFKA_PREFIX)
        if key == option:
            continue
        if key == "group.id":
            if not value:
                raise OptionError("kafka.group.id is empty")
            group_id = value
        elif key in HONOURED_KEYS or is_security_key(key):
            passed[key] = value
        elif key in _REFUSED_AS_IN_SPARK:
            raise OptionError(f"Kafka option '{key}' is not supported: {_REFUSED_AS_IN_SPARK[key]}")
        elif key in _CONSUMER_KEYS_WITHOUT_EFFECT:
            _logger.warning("Kafka option %r has no effect: the source has no Java consumer inside", key)
        else:
            raise OptionError(f"unknown Kafka option '{key}': it is no configuration key of Kafka's consumer")
    if "bootstrap.servers" not in passed:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    try:
        return ClientConfig.from_mapping(passed), group_id
    except ClientConfigError as error:
        raise OptionError(f"{KAFKA_PREFIX}{error}") from None


def _offset_limit(option: str, given: Mapping[str, str], default: OffsetLimit) -> OffsetLimit:
    text = given.get(option.lower(), "").strip()
    if not text:
        return default
    if text.lower() == "earliest":
        return "earliest"
    if text.lower() == "latest":
        return "latest"
    if text.lower() == "committed" and option == "startingOffsets":
        return "committed"
    return parse_offsets(option, text)


def _positive(option: str, given: Mapping[str, str]) -> int | None:
    text = given.get(option.lower())
    return None if text is None else parse_positive(option, text)


def _truth(option: str, given: Mapping[str, str], *, default: bool) -> bool:
    text = given.get(option.lower())
    return default if text is None else parse_truth(option, text)
