"""Warnings about an etcd whose version or configuration is not safe or not sound for a metadata store."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Final

from klamm.metadata.etcd.etcd_client import RANGE, EtcdClient
from klamm.metadata.etcd.etcd_errors import EtcdCallFailed
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import MetadataStoreError

__all__ = ["RefusedWrites", "is_safe", "keep_looking", "warn_about"]

_SAFE_FROM: Final = {(3, 4): 36, (3, 5): 18}
"""The first releases of 3.4 and 3.5 whose watches deliver every deletion next to a compaction (etcd-io/etcd#18089,
#19179). Later minor versions have the corrections from their first release."""
_OLDEST: Final = (3, 4)
_MANY_REVISIONS: Final = 10_000
_LOOK_AGAIN_S: Final = 3600.0
_REPEATED_AFTER_S: Final = 60.0
_logger = logging.getLogger(__name__)


def is_safe(version: str) -> bool:
    """Returns whether watches of this version of etcd miss nothing."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if match is None:
        return True
    major, minor, patch = (int(part) for part in match.groups())
    return (major, minor) >= _OLDEST and patch >= _SAFE_FROM.get((major, minor), 0)


def warn_about(client: EtcdClient) -> None:
    """Logs a warning for each finding. Raises MetadataStoreError if etcd does not answer."""
    if not is_safe(client.version):
        _logger.warning(
            "etcd %s can lose the deletion of a key in a watch when it compacts (etcd-io/etcd#18089, #19179): use "
            "3.4.%d, 3.5.%d or later",
            client.version,
            *_SAFE_FROM.values(),
        )
    for alarm in client.alarms:
        _logger.warning("etcd reports: %s", alarm)
    _warn_about_growth(client)


async def keep_looking(client: EtcdClient) -> None:
    """Logs a warning every hour in which etcd has still compacted nothing, until it is cancelled.

    A new etcd has few revisions when a broker starts, and the broker may run for months.
    """
    while True:
        await asyncio.sleep(_LOOK_AGAIN_S)
        try:
            await asyncio.to_thread(_warn_about_growth, client)
        except MetadataStoreError as error:
            _logger.debug("whether etcd compacts can't be seen: %s", error)  # the session tells what is wrong


def _warn_about_growth(client: EtcdClient) -> None:
    if _was_never_compacted(client):
        _logger.warning(
            "etcd has never compacted its %d revisions, and its disk quota will be used up: start it with "
            "--auto-compaction-mode=periodic --auto-compaction-retention=1h",
            client.highest_revision,
        )


def _was_never_compacted(client: EtcdClient) -> bool:
    """Returns whether etcd still has one of its first revisions after many later ones: its options can't be read."""
    request = messages.RangeRequest(key=client.address.key_prefix, count_only=True)
    if client.call(RANGE, request).header.revision < _MANY_REVISIONS:
        return False
    request.revision = 2
    try:
        client.call(RANGE, request)
    except EtcdCallFailed as error:
        if error.is_compacted:
            return False
        raise
    return True


class RefusedWrites:
    """Logs that etcd refuses all writes, at most once a minute: a broker may try the same change every second."""

    def __init__(self) -> None:
        self._due_s = 0.0

    def log(self, error: EtcdCallFailed) -> None:
        """Logs a warning with what to do, unless there was one in the last minute."""
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + _REPEATED_AFTER_S
            _logger.warning("%s", error)
