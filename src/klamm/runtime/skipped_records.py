"""What a coordinator passes over when it loads a partition of its internal topic.

Records of unknown types may be left over from a newer version, and are told once for each load. A record that can't be
read is an error: what it said of its group is not known, and all others hold. Apache Kafka fails the whole partition
there (`CoordinatorLoaderImpl`), and with it every group that has nothing to do with the record.
"""

from __future__ import annotations

import logging
from typing import Final

from klamm.protocol.types import Offset, PartitionIndex

__all__ = ["SkippedRecords"]

_log = logging.getLogger(__name__)

_LINES_PER_LOAD: Final = 20
_TYPE_BYTES: Final = 2
_ADVICE: Final = "They stay in the log, where `klamm log dump` shows them."


class SkippedRecords:
    """The records that were passed over in one load of one partition. `owner_word` is what its keys begin with."""

    def __init__(self, topic: str, partition: PartitionIndex, owner_word: str) -> None:
        self._where = f"{topic}-{partition}"
        self._owner_word = owner_word
        self.unreadable = 0
        self._unknown_types: set[int] = set()

    def add_unreadable(self, offset: Offset, key: bytes, reason: str) -> None:
        """Notes a record of a known type, or of none, that can't be read."""
        self.unreadable += 1
        if self.unreadable <= _LINES_PER_LOAD:
            owner = _owner(key)
            whose = "" if owner is None else f" ({self._owner_word} {owner})"
            _log.error(
                "the record at offset %d of %s can't be read and is skipped%s: %s", offset, self._where, whose, reason
            )

    def add_unknown(self, key: bytes) -> None:
        """Notes a record of a type that the coordinator doesn't know."""
        self._unknown_types.add(int.from_bytes(key[:_TYPE_BYTES], "big", signed=True))

    def end(self) -> None:
        """Tells of what has no line of its own."""
        if self._unknown_types:
            _log.warning(
                "%s has records of types that this coordinator doesn't know (%s), left over from another version. %s",
                self._where,
                ", ".join(map(str, sorted(self._unknown_types))),
                _ADVICE,
            )
        if self.unreadable > _LINES_PER_LOAD:
            _log.error("%d records of %s can't be read and were skipped. %s", self.unreadable, self._where, _ADVICE)


def _owner(key: bytes) -> str | None:
    """The group or transactional id that a key begins with, behind its type; None if it has none.

    The keys of all types begin with it, and none of them is of a flexible version.
    """
    length = int.from_bytes(key[_TYPE_BYTES : _TYPE_BYTES + 2], "big", signed=True)
    owner = key[_TYPE_BYTES + 2 :][: max(length, 0)]
    return owner.decode(errors="replace") if owner and len(owner) == length else None
