"""Planted bugs of deleted records in replicated partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.logs.bugs import LOG_BUGS

from klamm.broker.handlers import delete_records
from klamm.broker.partitions.partition import Partition
from klamm.protocol.types import Offset
from klamm.storage.log.log_following import LogFollowing
from klamm.storage.log.log_reader import LogReader
from klamm.storage.log.log_retention import LogRetention

__all__ = ["DELETION_BUGS"]


@contextmanager
def _keep_what_is_deleted() -> Iterator[None]:
    """A follower does not take over the leader's log start offset."""

    def stay(following: LogFollowing, offset: Offset) -> None:
        return

    with patch.object(LogFollowing, "raise_log_start_offset", stay):
        yield


@contextmanager
def _answer_before_the_followers() -> Iterator[None]:
    """DeleteRecords is answered before the followers have deleted the records."""

    def own(context: object, partition: Partition) -> Offset:
        return partition.log.log_start_offset

    with patch.object(delete_records, "_low_watermark", own):
        yield


@contextmanager
def _delete_up_to_the_high_watermark() -> Iterator[None]:
    """A follower raises its log start offset to its high watermark if the leader has deleted anything."""

    def raise_far(retention: LogRetention, offset: Offset) -> None:
        if offset > retention._log.log_start_offset:
            retention._raise_log_start_offset(retention._log.high_watermark)

    with patch.object(LogRetention, "follow_log_start_offset", raise_far):
        yield


@contextmanager
def _send_deleted_records() -> Iterator[None]:
    """A log sends the records below its log start offset that are in its files."""
    read = LogReader.read

    def read_all(reader: LogReader, offset: Offset, *arguments: Any, **options: Any) -> Any:
        start = reader._log.log_start_offset
        reader._log.log_start_offset = Offset(min(start, max(offset, reader._log.segments[0].base_offset)))
        try:
            return read(reader, offset, *arguments, **options)
        finally:
            reader._log.log_start_offset = start

    with patch.object(LogReader, "read", read_all):
        yield


DELETION_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "keep what is deleted": _keep_what_is_deleted,
    "answer before the followers": _answer_before_the_followers,
    "delete up to the high watermark": _delete_up_to_the_high_watermark,
    "send deleted records": _send_deleted_records,
    "keep too little": LOG_BUGS["keep too little"],
}
"""Bugs of deleted records."""
