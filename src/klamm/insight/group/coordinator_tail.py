"""One group's state in the newest records of a coordinator's log, for example since when a revocation is pending."""

from __future__ import annotations

from typing import Final

from klamm.core.coordinator.java_hash import partition_for
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group.coordinator_state import CoordinatorState
from klamm.insight.group.replayed_group import ReplayedGroup
from klamm.insight.topic.partition_records import PartitionReader
from klamm.insight.topic.topic_directory import TopicDirectory
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC

__all__ = ["CoordinatorTail"]

_MOST_RECORDS: Final = 50_000
PATIENCE_S: Final = 5.0


class CoordinatorTail:
    """Reads the end of the group's partition of `__consumer_offsets`, then the new records.

    This information is optional: if the topic can't be read, `update` returns None.
    """

    def __init__(self, access: ClusterAccess, group: str, *, follow: bool = False) -> None:
        self._group = group
        self._state = CoordinatorState(TopicDirectory(access).name_of)
        self._patience_s = PATIENCE_S
        self._reader: PartitionReader | None = PartitionReader(access, follow=follow)
        try:
            count = self._reader.partition_count(OFFSETS_TOPIC)
            if count is None:
                self.close()
                return
            partition = partition_for(group, count)
            first, end = self._reader.bounds(OFFSETS_TOPIC, partition)
            self._reader.start(OFFSETS_TOPIC, partition, max(first, end - _MOST_RECORDS))
        except ClusterError:
            self.close()

    def update(self) -> ReplayedGroup | None:
        """Returns the group after all records so far; None if no record is about the group."""
        try:
            for message in self._reader.available(self._patience_s) if self._reader is not None else ():
                value = message.value()
                self._state.apply(
                    bytes(message.key() or b""),
                    bytes(value) if value is not None else None,
                    message.timestamp()[1],
                    message.offset() or 0,
                )
        except ClusterError:
            self.close()
        self._patience_s = 0.0  # the first call waits for all records, later calls only poll
        return self._state.group(self._group)

    def close(self) -> None:
        """Closes the consumer."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
