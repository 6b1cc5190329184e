"""The options of `format("klamm")`: those of Spark's own Kafka source. None is ignored without a warning or an
error."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.client.config import ClientConfig
from klamm.config.nearest import nearest
from klamm.spark.query_checkpoints import fingerprint
from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.group_options import check_batch_group, check_group_options
from klamm.spark.source.options.kafka_options import KAFKA_PREFIX, parse_kafka_options
from klamm.spark.source.options.klamm_options import KLAMM_PREFIX, KlammOptions
from klamm.spark.source.options.option_values import parse_positive, parse_truth, parse_whole
from klamm.spark.source.options.positions import OffsetLimit, check_batch_limits, ending_limit, starting_limit
from klamm.spark.source.options.read_limits import Division, TriggerLimits, parse_division, parse_trigger_limits
from klamm.spark.source.options.subscription import Subscription, parse_subscription

__all__ = ["SOURCE_OPTIONS", "OffsetRetries", "SourceOptions"]

_logger = logging.getLogger(__name__)

SOURCE_OPTIONS: Final = {
    name.lower(): name
    for name in (
        "assign",
        "endingOffsets",
        "endingOffsetsByTimestamp",
        "endingTimestamp",
        "failOnDataLoss",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "includeHeaders",
        "kafkaConsumer.pollTimeoutMs",
        "maxOffsetsPerTrigger",
        "maxRecordsPerPartition",
        "maxTriggerDelay",
        "minOffsetsPerTrigger",
        "minPartitions",
        "startingOffsets",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "startingTimestamp",
        "subscribe",
        "subscribePattern",
    )
}
"""Names by their form in lower case, in which Spark passes options."""
_WITHOUT_EFFECT: Final = {
    "groupidprefix": "no group is made up; kafka.group.id names the group that the query commits to",
}


@dataclass(frozen=True, slots=True)
class OffsetRetries:
    """The number of requests for the ends of partitions while a response is implausible, and the interval between
    them."""

    attempts: int = 3
    interval_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The validated options of one query."""

    client: ClientConfig
    subscription: Subscription
    group_id: str | None
    starting_offsets: OffsetLimit
    ending_offsets: OffsetLimit
    limits: TriggerLimits
    division: Division
    offset_retries: OffsetRetries
    fail_on_data_loss: bool
    include_headers: bool
    klamm: KlammOptions
    """The options that begin with `klamm.`."""
    fingerprint: str
    """The hash by which the driver finds the queries with these options."""
    poll_timeout_ms: int | None = None
    """How long a task waits for records of a partition; None: `kafka.default.api.timeout.ms`.
    """

    @property
    def reading_client(self) -> ClientConfig:
        """The settings of the tasks' clients, which read records."""
        if self.poll_timeout_ms is None:
            return self.client
        return dataclasses.replace(self.client, default_api_timeout_ms=self.poll_timeout_ms)

    @classmethod
    def for_batch(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parses the options of a batch read. Keys are case-insensitive. Raises `OptionError`."""
        given = _lower(options)
        parsed = cls._parse(given, starting_offsets="earliest", is_batch=True)
        check_batch_group(given, parsed.klamm)
        check_batch_limits(parsed.starting_offsets, parsed.ending_offsets)
        return parsed

    @classmethod
    def for_stream(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parses the options of a streaming query. Keys are case-insensitive. Raises `OptionError`."""
        given = _lower(options)
        if "endingoffsets" in given:
            raise OptionError("endingOffsets: ending offset not valid in streaming queries")
        if "endingoffsetsbytimestamp" in given or "endingtimestamp" in given:
            raise OptionError("endingTimestamp: ending timestamp not valid in streaming queries")
        parsed = cls._parse(given, starting_offsets="latest", is_batch=False)
        if parsed.klamm.filter_pushdown:
            _logger.warning("klamm.filterPushdown has no effect on a stream: Spark passes filters to batch reads only")
        return parsed

    @classmethod
    def check(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parses the options before it is known whether the query is a batch or a stream. Raises `OptionError`."""
        return cls._parse(_lower(options), starting_offsets="earliest", is_batch=False)

    @classmethod
    def _parse(cls, given: Mapping[str, str], *, starting_offsets: OffsetLimit, is_batch: bool) -> SourceOptions:
        _refuse_unknown(given)
        client, group_id = parse_kafka_options(given)
        check_group_options(given, group_id, client)
        return cls(
            client=client,
            subscription=parse_subscription(given),
            group_id=group_id,
            starting_offsets=starting_limit(given, starting_offsets),
            ending_offsets=ending_limit(given),
            limits=parse_trigger_limits(given, is_batch=is_batch),
            division=parse_division(given),
            offset_retries=_offset_retries(given),
            fail_on_data_loss=parse_truth("failOnDataLoss", given.get("failondataloss", "true")),
            include_headers=parse_truth("includeHeaders", given.get("includeheaders", "false")),
            klamm=KlammOptions.parse(given),
            fingerprint=fingerprint(given),
            poll_timeout_ms=_poll_timeout_ms(given),
        )


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for key in given:
        if key.startswith((KAFKA_PREFIX, KLAMM_PREFIX)) or key in SOURCE_OPTIONS:
            continue
        if key in _WITHOUT_EFFECT:
            _logger.warning("the option %r has no effect here: %s", key, _WITHOUT_EFFECT[key])
            continue
        meant = nearest(key, SOURCE_OPTIONS)
        hint = (
            f"did you mean {SOURCE_OPTIONS[meant]}?"
            if meant is not None
            else "its options are those of Spark's Kafka source"
        )
        raise OptionError(f'unknown option {key!r} of format("klamm"): {hint}')


def _poll_timeout_ms(given: Mapping[str, str]) -> int | None:
    text = given.get("kafkaconsumer.polltimeoutms")
    return None if text is None else parse_positive("kafkaConsumer.pollTimeoutMs", text)


def _offset_retries(given: Mapping[str, str]) -> OffsetRetries:
    attempts, interval = given.get("fetchoffset.numretries", "3"), given.get("fetchoffset.retryintervalms", "1000")
    return OffsetRetries(
        parse_positive("fetchOffset.numRetries", attempts), parse_whole("fetchOffset.retryIntervalMs", interval)
    )
