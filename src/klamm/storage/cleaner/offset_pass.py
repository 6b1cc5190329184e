"""The first pass of a cleaning: notes the latest offset of each key in the dirty part of the log.

Source: `Cleaner.buildOffsetMap` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from klamm.core.log.compaction_batches import AbortedEntry, CleanedTransactions
from klamm.protocol.record_scanner import OffsetTable
from klamm.protocol.types import Offset
from klamm.storage.cleaner.passes import PassSettings, is_commit, open_batch
from klamm.storage.cleaner.source import Source, SourceBatch, open_source, read_batches
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.offset_index import OffsetIndex

__all__ = ["fill_offset_table"]

_MARKER_OFFSET: Final = 2
"""Index of the last offset in an `AbortedEntry`."""


def fill_offset_table(
    table: OffsetTable,
    sources: Sequence[Source],
    *,
    first_dirty_offset: Offset,
    max_entries: int,
    aborted: Iterable[AbortedEntry],
    settings: PassSettings,
) -> Offset:
    """Stores the latest offset of every key in the dirty segments, as far as the table has room.

    Returns the offset up to which the table is complete. Records of aborted transactions are ignored. Raises
    `CleaningAborted`, `UncleanableSegment`, OSError.
    """
    # An earlier cleaning passed the markers of the other transactions, so this pass would not meet them.
    transactions = CleanedTransactions(entry for entry in aborted if entry[_MARKER_OFFSET] >= first_dirty_offset)
    end_offset = first_dirty_offset
    for source in sources:
        start = _position_of(source, first_dirty_offset)
        with open_source(source.path) as descriptor:
            for batch in read_batches(descriptor, source, settings.buffer_bytes, settings.account, start):
                header = batch.header
                if header.is_control:
                    transactions.on_marker(header, is_commit(source, batch))
                elif not transactions.on_batch(header) and header.last_offset >= first_dirty_offset:
                    noted_to = _note_keys(table, source, batch, first_dirty_offset, max_entries)
                    if noted_to is not None:
                        return max(end_offset, noted_to)
                end_offset = max(end_offset, header.next_offset)
        end_offset = max(end_offset, source.end_offset)
    return end_offset


def _note_keys(
    table: OffsetTable, source: Source, batch: SourceBatch, first_dirty_offset: Offset, max_entries: int
) -> Offset | None:
    """Stores the keys of a batch.

    Returns None if all of them fit, otherwise the offset up to which they were stored.
    """
    base_offset = batch.header.base_offset
    spans = open_batch(source, batch)
    noted = table.put_records(spans, base_offset, start_offset=first_dirty_offset, max_entries=max_entries)
    if noted == spans.count:
        return None
    return Offset(base_offset + spans.offset_deltas[noted - 1] + 1) if noted else base_offset


def _position_of(source: Source, offset: Offset) -> int:
    """Returns the file position at which to start the search for `offset`: from the index, or 0 if the index can't be
    read."""
    if offset <= source.base_offset:
        return 0
    index = OffsetIndex(source.path.with_suffix(".index"), source.base_offset, 0)
    try:
        return index.lookup(offset)[1]
    except (CorruptIndex, OSError):
        return 0
