"""Planted bugs in the broker's services, its coordinators and its client: they show that worlds of brokers find such
bugs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from klamm.broker.handlers import fetch, list_offsets, produce
from klamm.broker.partitions import fetch_answers
from klamm.broker.partitions.fetch_read import FetchRead
from klamm.broker.partitions.fetch_sessions import CachedPartition
from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.transaction_markers import TransactionMarkers
from klamm.broker.partitions.transaction_verification import TransactionVerification
from klamm.broker.partitions.warm_reads import WarmRead
from klamm.broker.services.coordinators.coordinator_ports import PartitionLogs
from klamm.client.fetch_exchange import FetchedBatches
from klamm.client.partition_stream import PartitionStream
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.core.log import producer_state, transaction_checks
from klamm.core.log.leader_epoch import EpochEntry
from klamm.core.log.producer_entry import ProducerEntry
from klamm.core.log.producer_state import ProducerState
from klamm.core.txn.markers import TransactionMarker
from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartitionResponse
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition
from klamm.storage.log import log_reader
from klamm.storage.log.log import Log
from klamm.storage.log.log_reader import LogReader
from klamm.storage.log.stored_batches import StoredBatches
from klamm.storage.segment.segment import Segment

__all__ = ["BROKER_BUGS", "mark_with_the_old_epoch", "store_no_assignments"]


@contextmanager
def _read_beyond_the_high_watermark() -> Iterator[None]:
    """A fetch does not wait for the high watermark: it returns uncommitted records."""

    def upper_bound(read: FetchRead, log: Log) -> Offset:
        return log.last_stable_offset if read.is_read_committed else log.log_end_offset

    with patch.object(FetchRead, "_upper_bound", upper_bound):
        yield


@contextmanager
def _answer_before_the_sync() -> Iterator[None]:
    """A produce with acks=all is answered when its batch is written, before the sync."""
    with patch.object(produce, "find_uncommitted", lambda partitions, answers: (answers, [])):
        yield


@contextmanager
def _commit_what_is_written() -> Iterator[None]:
    """The end of a sync commits the records that were written during the sync."""
    synced = Partition._synced

    def all_synced(partition: Partition) -> None:
        partition.log.advance_high_watermark(partition.log.log_end_offset)
        partition._tell_committed(0)
        synced(partition)

    with patch.object(Partition, "_synced", all_synced):
        yield


@contextmanager
def _drop_from_the_session() -> Iterator[None]:
    """An incremental fetch answer keeps only its first partition, and the session treats the other records as sent."""
    news = fetch_answers.news_of

    def fewer(*arguments: Any) -> Sequence[Any]:
        found = news(*arguments)
        for cached, response in found[1:]:
            cached.request = cached.request._replace(fetch_offset=response.high_watermark)
        return found[:1]

    with patch.object(fetch, "news_of", fewer):
        yield


@contextmanager
def _forget_to_answer_news() -> Iterator[None]:
    """An incremental fetch leaves out a partition whose high watermark has not changed, even if it has records."""
    must_respond = CachedPartition.must_respond

    def without_records(cached: CachedPartition, response: FetchPartitionResponse, has_records: bool) -> bool:
        return must_respond(cached, response, has_records=False)

    with patch.object(CachedPartition, "must_respond", without_records):
        yield


@contextmanager
def _skip_an_offset() -> Iterator[None]:
    """The client skips one offset after an answer that names an aborted transaction."""
    received = PartitionStream.received

    def skipping(stream: PartitionStream, *arguments: Any) -> FetchedBatches | None:
        fetched = received(stream, *arguments)
        if fetched is not None and fetched.aborted_transactions:
            stream._position = Offset(stream._position + 1)
        return fetched

    with patch.object(PartitionStream, "received", skipping):
        yield


@contextmanager
def _expire_an_open_producer() -> Iterator[None]:
    """A producer that has not written for long is forgotten, together with its open transaction."""

    def is_expired(state: ProducerState, entry: ProducerEntry, now_ms: Millis) -> bool:
        return now_ms - entry.last_timestamp >= state._expiration_ms

    with patch.object(ProducerState, "_is_expired", is_expired):
        yield


@contextmanager
def _end_the_next_transaction() -> Iterator[None]:
    """A repeated marker ends the next transaction of its producer."""

    def check(
        entry: ProducerEntry | None, producer_id: int, epoch: ProducerEpoch, marker: EndTransactionMarker, version: int
    ) -> None:
        transaction_checks.check_marker(entry, producer_id, epoch, marker, 0)

    with patch.object(producer_state, "check_marker", check):
        yield


@contextmanager
def _show_pending_offsets() -> Iterator[None]:
    """Offsets of a transaction are visible before its marker."""
    hold_offset = GroupStore._hold_offset

    def show(store: GroupStore, producer_id: ProducerId, key: Any, committed: CommittedOffset) -> None:
        hold_offset(store, producer_id, key, committed)
        group_id, topic, partition = key
        store.offsets_for(group_id, topic)[partition] = committed

    with patch.object(GroupStore, "_hold_offset", show):
        yield


@contextmanager
def _forget_pending_offsets() -> Iterator[None]:
    """A commit marker forgets the offsets of its transaction."""
    replay = GroupStore.replay_end_transaction_marker

    def forget(store: GroupStore, producer_id: ProducerId, committed: bool) -> None:
        replay(store, producer_id, False)

    with patch.object(GroupStore, "replay_end_transaction_marker", forget):
        yield


@contextmanager
def _hide_an_aborted_transaction() -> Iterator[None]:
    """A fetch does not name the last of several aborted transactions."""
    aborted = Log.aborted_transactions

    def fewer(*arguments: Any) -> Any:
        found = aborted(*arguments)
        return found[:-1] if len(found) > 1 else found

    with patch.object(Log, "aborted_transactions", fewer):
        yield


@contextmanager
def _let_coordinators_answer_early() -> Iterator[None]:
    """Coordinators answer before the sync: they treat written records as committed."""

    def high_watermark(logs: PartitionLogs, partition: PartitionIndex) -> Offset:
        return logs.log_end_offset(partition)

    with patch.object(PartitionLogs, "high_watermark", high_watermark):
        yield


@contextmanager
def _commit_what_was_found() -> Iterator[None]:
    """A start commits the records that it finds before their sync."""

    def commit_found(partition: Partition) -> None:
        partition.log.advance_high_watermark(partition.log.log_end_offset)

    with patch.object(Partition, "commit_found", commit_found):
        yield


@contextmanager
def _skip_verification() -> Iterator[None]:
    """The first batch of a transaction is written without a request to its coordinator."""

    def begin(verification: TransactionVerification, partition: Partition, sequence: int) -> None:
        return

    with (
        patch.object(TransactionVerification, "begin", begin),
        patch.object(producer_state, "check_first_of_transaction", lambda *arguments, **options: None),
    ):
        yield


@contextmanager
def _forget_a_marker() -> Iterator[None]:
    """In a transaction with several partitions the last one gets no marker, but its marker counts as written."""
    write_markers = TransactionMarkers.write_markers

    async def fewer(markers: TransactionMarkers, marker: TransactionMarker) -> Mapping[TopicPartition, ErrorCode]:
        first, *others = marker.partitions
        codes = await write_markers(markers, replace(marker, partitions=(first, *others[:-1])))
        return {**dict.fromkeys(others, ErrorCode.NONE), **codes}

    with patch.object(TransactionMarkers, "write_markers", fewer):
        yield


@contextmanager
def mark_with_the_old_epoch() -> Iterator[None]:
    """The marker of a transaction has the epoch of its records, so a late batch is accepted behind it (KIP-890)."""
    write = TransactionMarkers._write

    def write_old(markers: TransactionMarkers, where: TopicPartition, marker: TransactionMarker) -> Any:
        if marker.transaction_version > 1:
            epoch = ProducerEpoch(marker.producer_epoch - 1)
            marker = replace(marker, producer_epoch=epoch, transaction_version=1)
        return write(markers, where, marker)

    with patch.object(TransactionMarkers, "_write", write_old):
        yield


@contextmanager
def _list_what_is_unstable() -> Iterator[None]:
    """ListOffsets returns the high watermark to readers of committed records, not the last stable offset."""
    with patch.object(list_offsets, "READ_COMMITTED", -1):
        yield


@contextmanager
def _find_the_next_offset() -> Iterator[None]:
    """A lookup by time finds a later record."""
    search_timestamp = Log.search_timestamp

    def later(log: Log, timestamp: Millis) -> Any:
        return search_timestamp(log, Millis(timestamp + 1))

    with patch.object(Log, "search_timestamp", later):
        yield


@contextmanager
def _end_an_epoch_late() -> Iterator[None]:
    """A past leader epoch is reported to end at the end of the log."""

    def end_offset_for(log: Log, epoch: LeaderEpoch) -> EpochEntry:
        found = log.epochs.known.end_offset_for(epoch, log.log_end_offset)
        return found._replace(start_offset=log.log_end_offset) if found.epoch == epoch else found

    with patch.object(Log, "end_offset_for_epoch", end_offset_for):
        yield


@contextmanager
def store_no_assignments() -> Iterator[None]:
    """The assignment by the leader of a classic group is answered, but not written."""
    metadata_with = ClassicGroup.metadata_with

    def without(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Any:
        return metadata_with(group, {})

    with patch.object(ClassicGroup, "metadata_with", without):
        yield


@contextmanager
def _serve_any_warm_read() -> Iterator[None]:
    """A fetch is answered with records that were read ahead, even for another offset."""

    def serves(read: WarmRead, partition: Partition, offset: int, max_bytes: int, upper_bound: Offset) -> bool:
        return len(read.records) <= max_bytes

    with patch.object(WarmRead, "serves", serves):
        yield


@contextmanager
def _send_few_bytes_from_files() -> Iterator[None]:
    """Batches are sent from their file if the reader's limit is large, even if the batches are small."""
    leave_at, smallest = LogReader._leave_at, log_reader.SENT_FROM_FILE_BYTES

    def leave(reader: LogReader, segment: Segment, position: int, length: int, *bounds: Any) -> StoredBatches | None:
        if length < smallest:
            return None
        with patch.object(log_reader, "SENT_FROM_FILE_BYTES", 1):
            return leave_at(reader, segment, position, length, *bounds)

    with patch.object(LogReader, "_leave_at", leave):
        yield


BROKER_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "read beyond the high watermark": _read_beyond_the_high_watermark,
    "answer before the sync": _answer_before_the_sync,
    "commit what is written": _commit_what_is_written,
    "drop from the session": _drop_from_the_session,
    "forget to answer news": _forget_to_answer_news,
    "skip an offset": _skip_an_offset,
    "expire an open producer": _expire_an_open_producer,
    "end the next transaction": _end_the_next_transaction,
    "show pending offsets": _show_pending_offsets,
    "forget pending offsets": _forget_pending_offsets,
    "hide an aborted transaction": _hide_an_aborted_transaction,
    "let coordinators answer early": _let_coordinators_answer_early,
    "commit what was found": _commit_what_was_found,
    "skip verification": _skip_verification,
    "forget a marker": _forget_a_marker,
    "mark with the old epoch": mark_with_the_old_epoch,
    "list what is unstable": _list_what_is_unstable,
    "find the next offset": _find_the_next_offset,
    "end an epoch late": _end_an_epoch_late,
    "store no assignments": store_no_assignments,
    "serve any warm read": _serve_any_warm_read,
    "send few bytes from files": _send_few_bytes_from_files,
}
