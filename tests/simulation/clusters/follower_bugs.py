"""Planted bugs of reads from followers (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final
from unittest.mock import patch

from klamm.broker.partitions.fetch_read import FetchRead
from klamm.protocol.types import Offset
from klamm.storage.log.log import Log

__all__ = ["FOLLOWER_BUGS"]


@contextmanager
def _show_uncommitted_records() -> Iterator[None]:
    """A follower sends consumers all records that it has copied, committed or not."""
    upper_bound = FetchRead._upper_bound

    def end_of_followed(read: FetchRead, log: Log) -> Offset:
        is_led = any(
            partition is not None and partition.log is log
            for led in read._partitions.by_name.values()
            for partition in led.partitions
        )
        return upper_bound(read, log) if is_led else log.log_end_offset

    with patch.object(FetchRead, "_upper_bound", end_of_followed):
        yield


FOLLOWER_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "show uncommitted records": _show_uncommitted_records,
}
"""Bugs of reads from followers."""
