"""What the data directory of a starting broker holds, compared with what its latest run held."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from klamm.protocol.types import TopicPartition

__all__ = ["DirectoryContent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryContent:
    """The content of a data directory. In each method, `latest` is the broker's run that has registered last."""

    kept_runs: Collection[str] = ()
    """The runs of the broker whose acknowledged records are all in the directory."""
    recorded_runs: Collection[str] = ()
    """The runs that the directory has recorded. A directory with a recorded run is not a new one."""
    held: Collection[TopicPartition] | None = None
    """The partitions whose logs the directory has; None for all partitions. A new disk has none."""
    unread: Collection[TopicPartition] = ()
    """The partitions whose logs are damaged, or gone although they were on the disk."""

    def has_kept_all(self, latest: str) -> bool:
        """Returns whether the directory has all records that the latest run has acknowledged."""
        return latest in self.kept_runs

    def has_log(self, latest: str, topic_partition: TopicPartition) -> bool:
        """Returns whether the directory has the log of a partition, or never had one on the disk.

        The latest run may have ended before it made the log of a new partition, or before the log reached the disk.
        Such a log counts as present, because a power failure takes unsynced records from every log. Otherwise a
        partition would never have a leader again if this happens to all its replicas.
        """
        if self.held is None or topic_partition in self.held:
            return True
        is_same_directory = latest in self.kept_runs or latest in self.recorded_runs
        return is_same_directory and topic_partition not in self.unread

    def begun(self, latest: str, incarnation: str) -> DirectoryContent:
        """Returns the content for a run that is about to register: once its registration is in the store, it counts
        like the run before it. A registration may be decided again when its first part is in the store."""
        kept, recorded = self.kept_runs, self.recorded_runs
        return replace(
            self,
            kept_runs=(*kept, incarnation) if latest in kept else kept,
            recorded_runs=(*recorded, incarnation) if latest in recorded else recorded,
        )
