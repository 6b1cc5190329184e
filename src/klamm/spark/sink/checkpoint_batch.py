"""A micro-batch as the checkpoint of its query describes it. Parses the contents of files; reads none.

Spark writes `metadata` once, when the query is started for the first time, and `offsets/N` once, before micro-batch N
runs for the first time. A repetition of the micro-batch finds the same bytes; another plan for micro-batch N has other
bytes, at least another time stamp. So the hash of the file identifies the micro-batch.
Source: `StreamMetadata`, `HDFSMetadataLog` and `OffsetSeqLog` of Apache Spark 4.3.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from klamm.protocol.types import Millis
from klamm.spark.sink.marker_errors import CheckpointUnreadable

__all__ = ["CheckpointBatch", "offsets_hash", "query_id_of"]


class CheckpointBatch(NamedTuple):
    """A micro-batch of a query, with what identifies it."""

    query_id: str
    batch_id: int
    run_id: str
    """The run that writes the micro-batch now; empty if it is not known."""
    offsets_hash: str
    """SHA-256, in hexadecimal, of `offsets/<batch id>`."""
    previous_offsets_hash: str | None
    """The same hash of the previous micro-batch; None if its file does not exist (any more)."""
    planned_ms: Millis | None
    """When Spark planned the micro-batch for the first time; None if the file does not say so."""

    @classmethod
    def of(
        cls, *, query_id: str, batch_id: int, run_id: str, offsets: bytes, previous_offsets: bytes | None
    ) -> CheckpointBatch:
        """Describes a micro-batch from the contents of `offsets/N` and `offsets/N-1`."""
        previous_hash = None if previous_offsets is None else offsets_hash(previous_offsets)
        return cls(query_id, batch_id, run_id, offsets_hash(offsets), previous_hash, _planned_ms(offsets))


def offsets_hash(content: bytes) -> str:
    """Returns the hash that identifies a micro-batch by the content of its file in the offset log."""
    return hashlib.sha256(content).hexdigest()


def query_id_of(metadata: bytes) -> str:
    """Returns the query's id from the checkpoint's file `metadata`. Raises `CheckpointUnreadable`."""
    try:
        query_id = json.loads(metadata)["id"]
    except (ValueError, KeyError, TypeError):
        query_id = None
    if not isinstance(query_id, str) or not query_id:
        raise CheckpointUnreadable(f"the file 'metadata' holds no query id: {metadata[:100]!r}")
    return query_id


def _planned_ms(offsets: bytes) -> Millis | None:
    """Reads `batchTimestampMs` from the second line, which follows the version."""
    lines = offsets.splitlines()
    try:
        planned_ms = json.loads(lines[1])["batchTimestampMs"]
    except (IndexError, ValueError, KeyError, TypeError):
        return None
    return Millis(planned_ms) if type(planned_ms) is int and planned_ms > 0 else None
