"""Counts and logs the records that a coordinator skips when it loads a partition of its internal topic.

Records of unknown types may be left over from a newer version; their types are logged once for each load. An unreadable
record is logged as an error: its content is lost for its group, and all other records count. Apache Kafka fails the
whole partition in this case (`CoordinatorLoaderImpl`), and with it all groups that the record does not concern.
"""

from __future__ import annotations

import logging
from typing import Final

from klamm.protocol.types import Offset, PartitionIndex

__all__ = ["SkippedRecords"]

_logger = logging.getLogger(__name__)

_LINES_PER_LOAD: Final = 20
_TYPE_BYTES: Final = 2
_ADVICE: Final = "They stay in the log, where `klamm log dump` shows them."


class SkippedRecords:
    """The records that one load of one partition skipped.

    `owner_word` is the noun for the id that the records' keys begin with, such as "group".
    """

    def __init__(self, topic: str, partition: PartitionIndex, owner_word: str) -> None:
        self._where = f"{topic}-{partition}"
        self._owner_word = owner_word
        self.unreadable = 0
        self._unknown_types: set[int] = set()

    def add_unreadable(self, offset: Offset, key: bytes, reason: str) -> None:
        """Counts an unreadable record, and logs the first few of one load. The record may have no type."""
        self.unreadable += 1
        if self.unreadable <= _LINES_PER_LOAD:
            owner = _owner(key)
            whose = "" if owner is None else f" ({self._owner_word} {owner})"
            _logger.error(
                "the record at offset %d of %s can't be read and is skipped%s: %s", offset, self._where, whose, reason
            )

    def add_unknown(self, key: bytes) -> None:
        """Collects the type of a record that the coordinator doesn't know."""
        self._unknown_types.add(int.from_bytes(key[:_TYPE_BYTES], "big", signed=True))

    def end(self) -> None:
        """Logs the unknown types, and the number of unreadable records if not all of them have been logged."""
        if self._unknown_types:
            _logger.warning(
                "%s has records of types that this coordinator doesn't know (%s), left over from another version. %s",
                self._where,
                ", ".join(map(str, sorted(self._unknown_types))),
                _ADVICE,
            )
        if self.unreadable > _LINES_PER_LOAD:
            _logger.error("%d records of %s can't be read and were skipped. %s", self.unreadable, self._where, _ADVICE)


def _owner(key: bytes) -> str | None:
    """Returns the group or transactional id that follows the type in a key; None if the key has none.

    All key types begin with that id, and none of them has a flexible version.
    """
    length = int.from_bytes(key[_TYPE_BYTES : _TYPE_BYTES + 2], "big", signed=True)
    owner = key[_TYPE_BYTES + 2 :][: max(length, 0)]
    return owner.decode(errors="replace") if owner and len(owner) == length else None
