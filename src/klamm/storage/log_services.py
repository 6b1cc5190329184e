"""What the logs of one data directory share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Lock

from klamm.protocol.types import Offset, TopicPartition
from klamm.storage.file_pool import FilePool

__all__ = ["LogServices"]


class LogServices:
    """What a log needs of the directory it is in.

    `run_in_background` runs something slow on the directory's own thread, in the order given.
    `before_truncation` notes durably that a log's recovery point falls to an offset, before the log is cut there: a
    crash in between must not look as if synced records were lost.
    `went_offline` is told, on whichever thread, of a log that works no more; who wants to know sets it.
    """

    __slots__ = (
        "before_truncation",
        "checkpoint_lock",
        "pool",
        "producer_id_expiration_ms",
        "random",
        "run_in_background",
        "went_offline",
    )

    def __init__(
        self,
        pool: FilePool,
        *,
        producer_id_expiration_ms: int,
        run_in_background: Callable[[Callable[[], None]], object],
        before_truncation: Callable[[TopicPartition, Offset], None],
        random: Random,
    ) -> None:
        self.pool = pool
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.run_in_background = run_in_background
        self.before_truncation = before_truncation
        self.random = random
        self.checkpoint_lock = Lock()
        self.went_offline: Callable[[TopicPartition], object] = _ignore


def _ignore(topic_partition: TopicPartition) -> None:
    """Nobody wants to know."""
