"""Record batches, closed and opened: the header level is `record_batch`, the records inside follow here."""

from __future__ import annotations

from klamm.protocol.record_batch import (
    BATCH_HEADER,
    BatchHeader,
    CorruptRecord,
    batch_crc_is_valid,
    iterate_batches,
    read_batch_header,
    restamp,
)

__all__ = [
    "BATCH_HEADER",
    "BatchHeader",
    "CorruptRecord",
    "batch_crc_is_valid",
    "iterate_batches",
    "read_batch_header",
    "restamp",
]
