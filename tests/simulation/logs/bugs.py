"""Planted bugs in the storage: they show that worlds of logs find such bugs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from klamm.config.topic_config import TopicConfig
from klamm.core.log import producer_state
from klamm.core.log.compaction_batches import BatchJudge
from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.core.log.ongoing_transactions import OngoingTransactions
from klamm.core.log.producer_entry import ProducerCopy, ProducerEntry
from klamm.core.log.producer_state import ProducerState
from klamm.core.log.retention import DeletionPlan, SegmentFacts, plan_deletion
from klamm.core.log.transaction_checks import check_marker
from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import Millis, Offset, ProducerEpoch
from klamm.storage.directory import log_directory
from klamm.storage.directory.log_directory import LogDirectory
from klamm.storage.file_removal import remove
from klamm.storage.log import log_durability, log_retention
from klamm.storage.log.flush import Flush
from klamm.storage.log.log import Log
from klamm.storage.log.log_leader_epochs import LogLeaderEpochs
from klamm.storage.log.log_sync import LogSync
from klamm.storage.log_files import SNAPSHOT_SUFFIX, file_name
from klamm.storage.recovery import log_loading, partition_files, recovery
from klamm.storage.recovery.loaded_log import LoadRequest
from klamm.storage.recovery.partition_files import PartitionFiles
from klamm.storage.recovery.producer_recovery import rebuild_producer_state
from klamm.storage.segment import segment_search
from klamm.storage.segment.batch_scan import BadBatch, BatchBounds, scan_bounds
from klamm.storage.segment.index_file import CorruptIndex, IndexFile
from klamm.storage.segment.segment import Segment

__all__ = ["LOG_BUGS"]


@contextmanager
def _cut_damage_silently() -> Iterator[None]:
    """Recovery truncates a log at the first bad batch, even below the recovery point, as Kafka's recovery does."""
    recover = recovery.recover

    def recover_without_point(request: LoadRequest, *arguments: Any) -> Offset:
        return recover(request._replace(recovery_point=Offset(0)), *arguments)

    with (
        patch.object(log_loading, "recover", recover_without_point),
        patch.object(log_loading, "check_end", lambda *arguments: None),
    ):
        yield


@contextmanager
def _forget_to_truncate_producers() -> Iterator[None]:
    """Producers' snapshots from before a truncation are kept and used, although they are newer than the log end."""

    def usable(directory: Path, snapshots: list[Offset], *rest: Any) -> list[Path]:
        return [directory / file_name(offset, SNAPSHOT_SUFFIX) for offset in snapshots]

    def rebuild(*arguments: Any, **options: Any) -> Offset:
        return rebuild_producer_state(*arguments, **{**options, "indexes_from": None})

    with (
        patch.object(log_loading, "usable_snapshots", usable),
        patch.object(log_loading, "rebuild_producer_state", rebuild),
    ):
        yield


@contextmanager
def _pass_an_open_transaction() -> Iterator[None]:
    """The last stable offset passes a transaction that is open alone: it equals the high watermark."""
    first_undecided_offset = OngoingTransactions.first_undecided_offset

    def first_of_several(transactions: OngoingTransactions) -> Offset | None:
        return first_undecided_offset(transactions) if len(transactions) > 1 else None

    with patch.object(OngoingTransactions, "first_undecided_offset", first_of_several):
        yield


@contextmanager
def _forget_to_sync_names() -> Iterator[None]:
    """A flush syncs records, but not the folder with the names of their files."""
    init = Flush.__init__

    def without_folders(flush: Flush, *arguments: Any, **options: Any) -> None:
        init(flush, *arguments, **{**options, "folders": []})

    with patch.object(Flush, "__init__", without_folders):
        yield


@contextmanager
def _believe_a_second_sync() -> Iterator[None]:
    """A failed sync leaves no mark: after a restart, all readable data count as synced."""
    with (
        patch.object(log_durability, "note_failed_sync", lambda directory: None),
        patch.object(log_loading, "forget_unsynced_cached_pages", lambda directory, recovery_point: None),
    ):
        yield


@contextmanager
def _delete_what_is_not_committed() -> Iterator[None]:
    """Retention deletes uncommitted records, because it uses the log end instead of the high watermark."""

    def plan(segments: Sequence[SegmentFacts], *arguments: Any, **options: Any) -> DeletionPlan:
        return plan_deletion(segments, *arguments, **{**options, "high_watermark": segments[-1].end_offset})

    with patch.object(log_retention, "plan_deletion", plan):
        yield


@contextmanager
def _keep_too_little() -> Iterator[None]:
    """Retention leaves less than `retention.bytes`: it deletes one segment too many."""

    def plan(segments: Sequence[SegmentFacts], config: TopicConfig, **options: Any) -> DeletionPlan:
        planned = plan_deletion(segments, config, **options)
        rest = segments[planned.segment_count :]
        is_too_large = 0 <= config.retention_bytes < sum(segment.size_bytes for segment in rest)
        if is_too_large and len(rest) > 1 and rest[0].end_offset <= options["high_watermark"]:
            return planned._replace(segment_count=planned.segment_count + 1)
        return planned

    with patch.object(log_retention, "plan_deletion", plan):
        yield


@contextmanager
def _keep_epochs_beyond_a_cut() -> Iterator[None]:
    """A truncated log keeps the leader epochs of the removed part."""
    with patch.object(LeaderEpochs, "truncate_from_end", lambda epochs, end_offset: False):
        yield


@contextmanager
def _forget_the_epoch_of_a_cut() -> Iterator[None]:
    """A truncated log forgets the leader epoch of its new end, too."""
    truncate_from_end = LeaderEpochs.truncate_from_end

    def truncate(epochs: LeaderEpochs, end_offset: Offset) -> bool:
        has_changed = truncate_from_end(epochs, end_offset)
        if has_changed and epochs._entries:
            epochs._entries.pop()
        return has_changed

    with patch.object(LeaderEpochs, "truncate_from_end", truncate):
        yield


@contextmanager
def _end_the_next_transaction() -> Iterator[None]:
    """A repeated marker ends the next transaction, because it has the same epoch."""

    def check(
        entry: ProducerEntry | None, producer_id: int, epoch: ProducerEpoch, marker: EndTransactionMarker, version: int
    ) -> None:
        check_marker(entry, producer_id, epoch, marker, 1)

    with patch.object(producer_state, "check_marker", check):
        yield


@contextmanager
def _expire_an_open_transaction() -> Iterator[None]:
    """An idle producer is forgotten, even if it has an open transaction."""

    def is_expired(state: ProducerState, entry: ProducerEntry, now_ms: Millis) -> bool:
        return now_ms - entry.last_timestamp >= state._expiration_ms

    with patch.object(ProducerState, "_is_expired", is_expired):
        yield


@contextmanager
def _forget_to_checkpoint_an_epoch() -> Iterator[None]:
    """A new leader epoch is not written to the checkpoint with the next flush."""
    with patch.object(LogLeaderEpochs, "checkpoint_with_next_flush", lambda epochs, sync: None):
        yield


@contextmanager
def _raise_the_start_too_far() -> Iterator[None]:
    """DeleteRecords raises the log start to the end of the batch that contains the offset."""
    delete_records_before = Log.delete_records_before

    def delete(each: Log, offset: Offset) -> Offset:
        is_within = each.log_start_offset <= offset < each.high_watermark
        data = each.read(offset, 1, upper_bound=each.high_watermark, minimum_one_batch=True) if is_within else b""
        header = next((header for _, header in iterate_batches(data)), None)
        if header is not None and header.base_offset < offset:
            offset = Offset(min(header.next_offset, each.high_watermark))
        return delete_records_before(each, offset)

    with patch.object(Log, "delete_records_before", delete):
        yield


@contextmanager
def _drop_tombstones_at_once() -> Iterator[None]:
    """A cleaning drops the tombstones of a batch with a delete horizon before `delete.retention.ms` is over."""
    with patch.object(BatchJudge, "has_passed_horizon", lambda judge, header: header.has_delete_horizon):
        yield


@contextmanager
def _vouch_too_early() -> Iterator[None]:
    """A snapshot of producers is written before the batches and indexes that it covers are synced."""
    write_later = LogSync.write_later

    def write(sync: LogSync, write: Callable[[], None], *, indexed_offset: Offset = Offset(0)) -> None:  # noqa: B008
        if indexed_offset:
            write()
        else:
            write_later(sync, write)

    with patch.object(LogSync, "write_later", write):
        yield


@contextmanager
def _make_a_lost_folder_anew() -> Iterator[None]:
    """A partition whose folder is gone begins again from offset 0."""
    with patch.object(LogDirectory, "find_lost", lambda *arguments: []):
        yield


@contextmanager
def _begin_with_what_is_there() -> Iterator[None]:
    """A log begins with the first segment that exists."""
    with patch.object(log_loading, "check_beginning", lambda *arguments: None):
        yield


@contextmanager
def _pass_over_a_gap() -> Iterator[None]:
    """A log continues with the next segment that exists."""

    def nothing(*arguments: Any) -> None:
        """Treats every gap as one that a cleaner has left."""

    with patch.object(log_loading, "check_no_gaps", nothing), patch.object(recovery, "check_no_gaps", nothing):
        yield


@contextmanager
def _remove_segments_too_early() -> Iterator[None]:
    """The files of deleted segments are removed before the new log start is noted."""

    def remove_at_once(paths: Sequence[Path], note_log_starts: Callable[[], None]) -> Sequence[Path]:
        remove(paths)
        return ()

    with patch.object(log_directory, "remove_let_go", remove_at_once):
        yield


@contextmanager
def _forget_what_belongs_to_a_lost_segment() -> Iterator[None]:
    """A start removes the index files of a lost segment."""
    list_files = partition_files.list_files

    def list_and_remove(request: LoadRequest) -> PartitionFiles:
        files = list_files(request)
        for path in files.orphans:
            path.unlink()
        return files._replace(orphans=[])

    with patch.object(log_loading, "list_files", list_and_remove):
        yield


@contextmanager
def _follow_an_index_blindly() -> Iterator[None]:
    """The position in an index entry is not checked: no batch may begin there."""

    def scan(segment: Segment, offset: int, position: int) -> Iterator[BatchBounds]:
        return scan_bounds(segment.descriptor, position, segment.size_bytes)

    with patch.object(segment_search, "_scan_from", scan):
        yield


@contextmanager
def _take_what_looks_like_a_batch() -> Iterator[None]:
    """Bytes to which an index entry points are taken for a batch, whatever their offsets are."""

    def scan(segment: Segment, _offset: int, position: int) -> Iterator[BatchBounds]:
        try:
            yield from scan_bounds(segment.descriptor, position, segment.size_bytes)
        except (BadBatch, OSError) as error:
            raise CorruptIndex(segment.base_offset, f"no batch begins at {position}") from error

    with patch.object(segment_search, "_scan_from", scan):
        yield


@contextmanager
def _keep_half_an_index() -> Iterator[None]:
    """If the log can't be read to its end while an index is rebuilt, half an index is kept."""
    with patch.object(IndexFile, "discard", lambda _index: None):
        yield


@contextmanager
def _save_only_the_last_batch() -> Iterator[None]:
    """A snapshot has only the last batch of each producer, as Apache Kafka's."""
    entries = ProducerCopy.snapshot_entries
    with patch.object(ProducerCopy, "snapshot_entries", lambda producer: iter([*entries(producer)][-1:])):
        yield


LOG_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "cut damage silently": _cut_damage_silently,
    "forget to truncate producers": _forget_to_truncate_producers,
    "pass an open transaction": _pass_an_open_transaction,
    "forget to sync names": _forget_to_sync_names,
    "believe a second sync": _believe_a_second_sync,
    "delete what is not committed": _delete_what_is_not_committed,
    "keep too little": _keep_too_little,
    "keep epochs beyond a cut": _keep_epochs_beyond_a_cut,
    "forget the epoch of a cut": _forget_the_epoch_of_a_cut,
    "forget to checkpoint an epoch": _forget_to_checkpoint_an_epoch,
    "raise the log start too far": _raise_the_start_too_far,
    "end the next transaction": _end_the_next_transaction,
    "expire an open transaction": _expire_an_open_transaction,
    "drop tombstones at once": _drop_tombstones_at_once,
    "vouch too early": _vouch_too_early,
    "make a lost folder anew": _make_a_lost_folder_anew,
    "begin with what is there": _begin_with_what_is_there,
    "pass over a gap": _pass_over_a_gap,
    "remove segments too early": _remove_segments_too_early,
    "forget what belongs to a lost segment": _forget_what_belongs_to_a_lost_segment,
    "follow an index blindly": _follow_an_index_blindly,
    "take what looks like a batch": _take_what_looks_like_a_batch,
    "keep half an index": _keep_half_an_index,
    "save only the last batch": _save_only_the_last_batch,
}
