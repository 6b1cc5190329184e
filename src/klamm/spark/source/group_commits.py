"""Tells the group how far the query has come, once Spark has it in its commit log.

The checkpoint is the truth and the group follows it. Spark calls `latestOffset(start)` with the end of the last
finished micro-batch as `start`, also after the last batch of an AvailableNow query and after a restart; so that is
where the group is told, before `latestOffset` returns. The source's own `commit` would come one batch late and never
for the last.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from klamm.client.errors import GaveUp
from klamm.protocol.types import Offset, TopicPartition

__all__ = ["Committer", "GroupCommits"]

_logger = logging.getLogger("klamm.spark")


class Committer(Protocol):
    """Where commits go: `klamm.client.group_offsets.GroupOffsets`."""

    def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Commits, or raises."""


class GroupCommits:
    """What has been committed to the group, and what has still to be."""

    def __init__(self, group: Committer | None) -> None:
        """`group` is None for a query that names no group; then nothing is ever committed."""
        self._group = group
        self._committed: Mapping[TopicPartition, Offset] | None = None

    def finished_up_to(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """The query has finished everything before these offsets: commits them if they are news to the group.

        A coordinator that can't be reached for long is a warning, and the next call tries again; a group that has
        members of its own raises `RequestRefused`.
        """
        if self._group is None or offsets == self._committed:
            return
        try:
            self._group.commit(offsets)
        except GaveUp as error:
            _logger.warning("the group's offsets lag behind the checkpoint: %s", error)
        else:
            self._committed = dict(offsets)
