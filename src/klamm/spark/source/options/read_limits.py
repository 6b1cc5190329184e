"""The options for the size of a micro-batch and for its division into tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.option_values import parse_duration_ms, parse_positive

__all__ = ["Division", "TriggerLimits", "parse_division", "parse_trigger_limits"]

_logger = logging.getLogger(__name__)

_DEFAULT_MAX_TRIGGER_DELAY: Final = "15m"
_OF_TRIGGERS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The limits for the number of offsets in a micro-batch."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    """With fewer offsets a micro-batch waits for more, for `max_delay_ms` at most."""
    max_delay_ms: int = 900_000


@dataclass(frozen=True, slots=True)
class Division:
    """The division of partitions into tasks; one task for each partition if neither is given."""

    min_partitions: int | None = None
    max_records: int | None = None


def parse_trigger_limits(given: Mapping[str, str], *, is_batch: bool) -> TriggerLimits:
    """Parses the limits from a query's options, whose keys are in lower case. Warns that a batch read ignores them.

    Raises `OptionError`.
    """
    limits = TriggerLimits(
        _number("maxOffsetsPerTrigger", given),
        _number("minOffsetsPerTrigger", given),
        parse_duration_ms("maxTriggerDelay", given.get("maxtriggerdelay", _DEFAULT_MAX_TRIGGER_DELAY)),
    )
    if limits.min_offsets is not None and limits.max_offsets is not None and limits.min_offsets > limits.max_offsets:
        raise OptionError(
            f"The value of minOffsetPerTrigger({limits.min_offsets}) is higher than "
            f"the maxOffsetsPerTrigger({limits.max_offsets})."
        )
    if is_batch:
        for option in _OF_TRIGGERS:
            if option.lower() in given:
                _logger.warning("%s option ignored in batch queries", option)
    return limits


def parse_division(given: Mapping[str, str]) -> Division:
    """Parses `minPartitions` and `maxRecordsPerPartition`. Raises `OptionError`."""
    return Division(_number("minPartitions", given), _number("maxRecordsPerPartition", given))


def _number(option: str, given: Mapping[str, str]) -> int | None:
    text = given.get(option.lower())
    return None if text is None else parse_positive(option, text)
