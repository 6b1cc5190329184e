"""The marker of a query: says which micro-batch of the query was the last one in its topics.

The marker is a committed offset of a group that belongs to the query. The transaction that writes the records of a
micro-batch commits this offset too (TxnOffsetCommit), so both become visible or neither does (ADR 35). The committed
offset is the micro-batch's id, so that every tool shows it. The metadata of the commit hold the rest, as JSON.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from klamm.client.committed_offsets import Commit
from klamm.protocol.types import Offset
from klamm.spark.sink.marker_errors import MarkerDamaged

__all__ = ["Marker", "group_of", "transactional_id_of"]

_VERSION: Final = 1
_PREFIX: Final = "klamm.sink."
_HASH: Final = re.compile(r"[0-9a-f]{64}")


class Marker(NamedTuple):
    """What is in the topics: the last micro-batch that a query has written."""

    batch_id: int
    run_id: str
    """The run of the query that wrote the micro-batch; empty if Spark did not pass it to the sink (a micro-batch
    without tasks)."""
    offsets_hash: str
    """SHA-256, in hexadecimal, of the checkpoint's file `offsets/<batch id>`."""

    def to_commit(self) -> Commit:
        """Encodes the marker as offset and metadata, about 170 bytes."""
        metadata = {"klamm.sink": _VERSION, "batch": self.batch_id, "run": self.run_id, "offsets": self.offsets_hash}
        return Commit(Offset(self.batch_id), json.dumps(metadata, separators=(",", ":")))

    @classmethod
    def from_commit(cls, commit: Commit | None) -> Marker | None:
        """Decodes a committed offset; None stands for no commit.

        Raises `MarkerDamaged` if another program has overwritten the commit, or a later version of klamm wrote it.
        """
        if commit is None:
            return None
        try:
            fields = json.loads(commit.metadata)
            version, batch_id, run_id, offsets_hash = (
                fields[name] for name in ("klamm.sink", "batch", "run", "offsets")
            )
        except (ValueError, KeyError, TypeError):
            raise MarkerDamaged(f"offset {commit.offset} with the metadata {commit.metadata!r}") from None
        if version != _VERSION:
            raise MarkerDamaged(f"a marker of version {version!r}, and this klamm knows version {_VERSION}")
        if type(batch_id) is not int or batch_id < 0 or not isinstance(run_id, str) or not _is_hash(offsets_hash):
            raise MarkerDamaged(f"offset {commit.offset} with the metadata {commit.metadata!r}")
        if commit.offset != batch_id:
            raise MarkerDamaged(f"offset {commit.offset} for the marker of micro-batch {batch_id}")
        return cls(batch_id, run_id, offsets_hash)


def group_of(query_id: str) -> str:
    """Returns the group that holds the marker of a query."""
    return _PREFIX + query_id


def transactional_id_of(query_id: str) -> str:
    """Returns the transactional id of a query. It has the group's name, so one prefix suffices for the ACLs of both."""
    return _PREFIX + query_id


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None
