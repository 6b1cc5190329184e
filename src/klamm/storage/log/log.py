"""The log of one partition: appends, reads, looks up and deletes. All access to a partition's records goes through it.

A log is composed of parts that share a `LogState` and have a contract each:

- `appender` (`log_appender`) appends batches as a leader.
- `following` (`log_following`) appends batches as a follower, and finds where the log diverges from the leader's.
- `reader` (`log_reader`) reads from an offset, and handles files that can't be read.
- `timestamps` (`log_timestamps`) searches by time.
- `epochs` (`log_leader_epochs`) keeps the leader epochs and their checkpoint.
- `producers` (`log_producers`) keeps the producer state and its snapshots.
- `transactions` (`log_transactions`) keeps the last stable offset and the aborted transactions.
- `durability` (`log_durability`) rolls, flushes and closes.
- `retention` (`log_retention`) deletes at the beginning.
- `truncation` (`log_truncation`) truncates the end to an offset, or removes all records.
- `compaction` (`log_compaction`) plans a cleaning and swaps cleaned segments in.

All of it is synchronous and belongs to one thread, the broker's event loop; only syncs may run on another thread. Every
refusal is a `KafkaError` with the error code for the response.

Source: `storage/internals/log/UnifiedLog.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.core.log.leader_epoch import EpochEntry
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch, Millis, Offset, TopicId, TopicPartition
from klamm.storage.log.flush import Flush
from klamm.storage.log.log_appender import LogAppender
from klamm.storage.log.log_compaction import LogCompaction
from klamm.storage.log.log_durability import LogDurability
from klamm.storage.log.log_following import LogFollowing
from klamm.storage.log.log_leader_epochs import LogLeaderEpochs
from klamm.storage.log.log_producers import LogProducers
from klamm.storage.log.log_reader import LogReader
from klamm.storage.log.log_retention import LogRetention
from klamm.storage.log.log_services import segment_settings
from klamm.storage.log.log_state import LogState
from klamm.storage.log.log_sync import LogSync
from klamm.storage.log.log_timestamps import LogTimestamps, TimestampSearch
from klamm.storage.log.log_transactions import LogTransactions
from klamm.storage.log.log_truncation import LogTruncation
from klamm.storage.log.stored_batches import StoredBatches
from klamm.storage.recovery.loaded_log import LoadedLog
from klamm.storage.segment.segments import Segments

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig
    from klamm.storage.log.log_services import LogServices
    from klamm.storage.segment.transaction_index import AbortedTransaction

__all__ = ["Log"]


class Log:
    """One partition's records, from `log_start_offset` up to but without `log_end_offset`.

    `state` has the same offsets as the properties; callers on a hot path read them there.
    """

    __slots__ = (
        "_segments",
        "_services",
        "_sync",
        "_unread",
        "appender",
        "compaction",
        "durability",
        "epochs",
        "following",
        "producers",
        "reader",
        "retention",
        "state",
        "timestamps",
        "topic_id",
        "topic_partition",
        "transactions",
        "truncation",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        services: LogServices,
        loaded: LoadedLog,
        *,
        now_ms: Millis,
        has_new_names: bool = False,
    ) -> None:
        """Composes the log. `has_new_names`: the partition's folder is new, and its name is not synced yet."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self._services = services
        self._unread = loaded if loaded.offline_reason is not None else None
        self._segments = segments = Segments(
            loaded.directory,
            segment_settings(config, services),
            loaded.segments,
            [(now_ms, path) for path in loaded.removals],
        )
        folders = [loaded.directory, loaded.directory.parent] if has_new_names else []
        self._sync = sync = LogSync(loaded.recovery_point, loaded.indexed_offset, folders)
        self.state = state = LogState(topic_partition, config, services, segments, loaded)
        self.epochs = LogLeaderEpochs(
            loaded.leader_epochs,
            segments,
            services.checkpoint_lock,
            # The checkpoint may lack the epochs of recovered batches, or have one that the start has dropped: it would
            # come back, and take the place of the records that follow.
            has_changed=loaded.has_new_epochs,
        )
        self.producers = LogProducers(state, sync, loaded.producers, loaded.snapshot_offset)
        self.transactions = LogTransactions(state, loaded.producers)
        self.durability = LogDurability(state, sync, self.epochs, self.producers, services, now_ms=now_ms)
        self.appender = LogAppender(state, sync, self.epochs, loaded.producers, self.transactions, self.durability)
        self.reader = LogReader(state)
        self.timestamps = LogTimestamps(state, self.reader)
        self.retention = LogRetention(state, self.epochs, self.durability, self.reader)
        self.truncation = LogTruncation(
            state, sync, self.epochs, self.producers, self.transactions, self.reader, services
        )
        self.following = LogFollowing(
            state,
            sync,
            self.epochs,
            self.producers,
            self.transactions,
            self.durability,
            self.appender,
            self.truncation,
            self.retention,
        )
        self.compaction = LogCompaction(state, self.transactions, self.reader)

    def __str__(self) -> str:
        return str(self.topic_partition)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def config(self) -> TopicConfig:
        """The topic's configuration."""
        return self.state.config

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that may be read."""
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """The offset that the next record gets."""
        return self.state.log_end_offset

    @property
    def high_watermark(self) -> Offset:
        """The offset below which every record is committed."""
        return self.state.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which every transaction is decided and its marker committed; without any, the high
        watermark."""
        return self.transactions.last_stable_offset

    @property
    def recovery_point(self) -> Offset:
        """The offset below which every record is durable. Recovery after a crash does not read below it."""
        return self._sync.recovery_point

    @property
    def log_start_offset_to_checkpoint(self) -> Offset | None:
        """The log start offset. None for an unreadable log whose start was not checkpointed either."""
        return self.log_start_offset if self._unread is None else self._unread.noted_log_start_offset

    @property
    def offline_reason(self) -> str | None:
        """The reason why all requests are refused; None for a log that can be used."""
        return self.state.offline_reason

    @property
    def is_unread(self) -> bool:
        """Whether the log was gone or damaged when it was opened: nothing of it can be used."""
        return self._unread is not None

    @property
    def is_offline(self) -> bool:
        """Whether all requests are refused; `offline_reason` has the reason."""
        return self.state.offline_reason is not None

    @property
    def directory(self) -> Path:
        """The partition's folder."""
        return self._segments.directory

    @property
    def size_bytes(self) -> int:
        """The size of all segments, without their indexes."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """The number of segments."""
        return len(self._segments)

    def update_config(self, config: TopicConfig) -> None:
        """Applies a new configuration. Existing segments keep the index settings with which they were opened."""
        if config is not self.state.config:
            self.state.config = config
            self._segments.settings = segment_settings(config, self._services)

    def mark_offline(self, reason: str) -> None:
        """Refuses all requests from now on. The first reason is kept."""
        self.state.mark_offline(reason)

    # -- read ----------------------------------------------------------------------------------------------------------

    def read(
        self, offset: Offset, max_bytes: int, *, upper_bound: Offset, minimum_one_batch: bool
    ) -> bytes | memoryview:
        """Returns whole batches from the one that holds `offset` on, below `upper_bound`, at most `max_bytes` of them.

        `upper_bound` is the high watermark, the last stable offset or the log end offset. With `minimum_one_batch` the
        first batch is returned even if it is larger than `max_bytes`; without it, the result is then empty. It is also
        empty at or beyond `upper_bound`.

        Raises `KafkaError`: OFFSET_OUT_OF_RANGE outside the log, KAFKA_STORAGE_ERROR if the log can't be read, or if
        the file is damaged there, which takes the log offline.
        """
        batches = self.reader.read(
            offset, max_bytes, upper_bound=upper_bound, minimum_one_batch=minimum_one_batch, to_send=False
        )
        assert not isinstance(batches, StoredBatches)
        return batches

    def read_to_send(
        self, offset: Offset, max_bytes: int, *, upper_bound: Offset, minimum_one_batch: bool
    ) -> bytes | memoryview | StoredBatches:
        """Reads as `read` does, but leaves large results in the file if their CRCs need no check.

        The caller sends them from the file.
        """
        return self.reader.read(
            offset, max_bytes, upper_bound=upper_bound, minimum_one_batch=minimum_one_batch, to_send=True
        )

    def aborted_transactions(self, offset: Offset, size_bytes: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions that a read_committed consumer needs for `size_bytes` of records at
        `offset`.

        They are in the order of their markers. As in Kafka there may be more, of records that follow soon. Raises the
        errors of `read`.
        """
        self.state.check_online()
        if not self.transactions.may_have_aborted(offset):
            return []
        return self.transactions.aborted_between(offset, self.reader.upper_bound(offset, size_bytes))

    def search_timestamp(self, timestamp_ms: Millis) -> TimestampSearch:
        """Searches for the first record that is not older than `timestamp_ms`.

        Raises the errors of `read`.
        """
        return self.timestamps.search(timestamp_ms)

    def search_max_timestamp(self) -> TimestampSearch:
        """Searches for the first record with the largest timestamp (KIP-734).

        Raises the errors of `read`.
        """
        return self.timestamps.search_max()

    # -- offsets and epochs --------------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: Offset) -> None:
        """Raises the high watermark to `offset`. It never falls, and never passes the log end offset."""
        self.state.advance_high_watermark(offset)

    def assign_leader_epoch(self, epoch: LeaderEpoch) -> None:
        """Starts a leader epoch at the log end offset: later records are appended under it.

        The checkpoint is written with the next flush, because an epoch without records need not be durable. If the log
        was just truncated, the rebuild of its producers is completed first. The log goes offline if it can't be read.
        """
        try:
            self.producers.complete_rebuild()
        except KafkaError:
            return  # the log is offline
        self.epochs.assign(epoch, self.state.log_end_offset)

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest leader epoch that was assigned, -1 for none."""
        return self.epochs.known.latest_epoch

    @property
    def leader_epochs(self) -> Sequence[EpochEntry]:
        """All leader epochs, oldest first, with their start offsets."""
        return self.epochs.known.entries

    def leader_epoch_at_start(self) -> LeaderEpoch:
        """Returns the epoch of the record at the log start offset, -1 if it is unknown."""
        return self.epochs.known.epoch_for_offset(self.state.log_start_offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEntry:
        """Returns the largest epoch not above `epoch`, and its end offset (KIP-101)."""
        return self.epochs.known.end_offset_for(epoch, self.state.log_end_offset)

    # -- segments ------------------------------------------------------------------------------------------------------

    def roll(self, now_ms: Millis) -> None:
        """Starts a new segment at the log end offset, unless the active one is empty.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        active = self.state.check_online()
        try:
            self.durability.roll(active, now_ms)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} can't be rolled: {error}") from error

    def flush(self, now_ms: Millis | None = None) -> None:
        """Makes all records up to the log end offset durable; see `LogDurability.flush`."""
        self.durability.flush(now_ms)

    def delete_records_before(self, offset: Offset) -> Offset:
        """Raises the log start offset (KIP-107); see `LogRetention.delete_records_before`."""
        return self.retention.delete_records_before(offset)

    def delete_old_segments(self, now_ms: Millis) -> int:
        """Deletes the segments that need not be retained; see `LogRetention.delete_old_segments`."""
        return self.retention.delete_old_segments(now_ms)

    def truncate_to(self, offset: Offset, now_ms: Millis) -> bool:
        """Truncates the log so that it ends at `offset`, and completes the rebuild of its producers.

        See `LogTruncation.truncate_to`.
        """
        is_cut = self.truncation.truncate_to(offset, now_ms)
        self.producers.complete_rebuild()
        return is_cut

    # -- end -----------------------------------------------------------------------------------------------------------

    def begin_close(self) -> Flush | None:
        """Writes what is in memory, and returns the flush that lets the next start trust the files. None if none is
        needed.

        The caller runs the flush, on any thread, and then calls `end_close`.
        """
        return self.durability.begin_close()

    def end_close(self) -> bool:
        """Closes the files, and returns whether the next start may trust them unread."""
        is_clean = self.durability.is_complete()
        self._segments.close()
        self._segments.active = None
        return is_clean

    def close(self) -> bool:
        """Flushes and closes the log. Returns whether the next start may trust the files unread."""
        flush = self.begin_close()
        if flush is not None:
            flush.run()
        return self.end_close()

    def leave(self, directory: Path, reason: str) -> None:
        """Closes the files without a flush and takes the log out of use; its folder is now `directory`."""
        self._sync.forget_above(self.state.log_end_offset)
        self.producers.drop_rebuild()
        self._segments.close()
        self._segments.move_to(directory)
        self._segments.active = None
        if self.state.offline_reason is None:
            self.state.offline_reason = f"{self} {reason}"
