"""Checks which options of the group may be combined."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from klamm.client.config import ClientConfig
from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.klamm_options import KlammOptions

__all__ = ["check_batch_group", "check_group_options"]

_logger = logging.getLogger(__name__)

_GROUP_PREFIX: Final = "klamm.group."
_OF_STREAMS: Final = ("klamm.group.conflict", "klamm.group.checkpointLocation")
_OF_MEMBERS: Final = ("kafka.session.timeout.ms", "kafka.heartbeat.interval.ms")


def check_group_options(given: Mapping[str, str], group_id: str | None, client: ClientConfig) -> None:
    """Checks the group's options, whose keys are in lower case.

    Raises `OptionError` for an option without the group or the start that it needs. Warns of options without effect."""
    starts_where_committed = given.get("startingoffsets", "").strip().lower() == "committed"
    if group_id is None:
        for key in given:
            if key.startswith(_GROUP_PREFIX):
                raise OptionError(f"{key} needs kafka.group.id, the group that it speaks of")
        if starts_where_committed:
            raise OptionError("startingOffsets=committed needs kafka.group.id, the group whose commits are meant")
    if "klamm.group.reset" in given and not starts_where_committed:
        raise OptionError(
            "klamm.group.reset is for startingOffsets=committed: it says where to start in a partition without a commit"
        )
    if given.get("klamm.group.mode", "").strip().lower() == "member":
        _check_session(client)
    else:
        for key in _OF_MEMBERS:
            if key in given:
                _logger.warning("Kafka option %r has no effect without klamm.group.mode=member", key)


def check_batch_group(given: Mapping[str, str], options: KlammOptions) -> None:
    """Raises `OptionError` for `klamm.group.mode=member`, since a batch read is not a member of a group, and for
    `klamm.stop.file` and `klamm.follow.checkpointLocation`. Warns of options without effect on a batch read.

    The keys of `given` are in lower case."""
    if options.group_mode == "member":
        raise OptionError("klamm.group.mode=member is for streaming queries: a batch read is no member of its group")
    if options.stop_file is not None:
        raise OptionError("klamm.stop.file is for streaming queries: a batch read ends by itself")
    if options.followed_checkpoint is not None:
        raise OptionError(
            "klamm.follow.checkpointLocation is for streaming queries: give a batch read the end as endingOffsets"
        )
    for option in _OF_STREAMS:
        if option.lower() in given:
            _logger.warning("%s has no effect on a batch read, which has no checkpoint", option)


def _check_session(client: ClientConfig) -> None:
    """Raises `OptionError` unless three heartbeat intervals, which must be above 0, fit into the session timeout."""
    if client.heartbeat_interval_ms * 3 > client.session_timeout_ms or client.heartbeat_interval_ms == 0:
        raise OptionError(
            f"kafka.heartbeat.interval.ms={client.heartbeat_interval_ms} has to lie above 0 and below a third of "
            f"kafka.session.timeout.ms={client.session_timeout_ms}"
        )
