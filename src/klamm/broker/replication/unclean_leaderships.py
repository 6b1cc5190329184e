"""Tells of partitions that this broker leads although it may lack acknowledged records of them.

The metadata record such a leader: it was elected as the last known leader or by an unclean election, or it has the only
replica and its machine has lost power.

Apache Kafka's controller counts such elections as UncleanLeaderElectionsPerSec.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.metadata.image import MetadataImage
    from klamm.protocol.types import BrokerId

__all__ = ["UncleanLeaderships"]

_logger = logging.getLogger(__name__)


class UncleanLeaderships:
    """The unclean leaderships that have begun on one broker while it runs."""

    def __init__(self, node_id: BrokerId) -> None:
        self._node_id = node_id
        self.count = 0
        """Number of partitions that this broker has begun to lead in this way."""

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Counts the leaderships that begin with the new image, and logs a line for each topic."""
        if old.topics is new.topics:
            return
        for name, topic in new.topics.items():
            before = old.topics.get(name)
            if before is topic:
                continue
            begun = [
                partition.index
                for partition in topic.partitions
                if partition.is_recovering
                and partition.leader == self._node_id
                and (
                    before is None
                    or partition.index >= len(before.partitions)
                    or before.partitions[partition.index].leader_epoch != partition.leader_epoch
                )
            ]
            if begun:
                self.count += len(begun)
                _logger.warning(
                    "%s: this broker leads the partitions %s, and may lack records that were acknowledged: no replica "
                    "that is known to have all of them could lead",
                    name,
                    begun,
                )
