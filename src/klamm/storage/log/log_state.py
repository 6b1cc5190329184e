"""The state that the parts of one log share: its offsets, its segments, and whether it is online.

The parts refer to the state instead of the log. So no part reaches into another one, and no reference cycle keeps a
deleted log in memory.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Offset, TopicPartition
from klamm.storage.recovery.loaded_log import LoadedLog
from klamm.storage.segment.segment import Segment
from klamm.storage.segment.segments import Segments

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig
    from klamm.storage.log.log_services import LogServices

__all__ = ["LogState"]

_logger = logging.getLogger(__name__)


class LogState:
    """The offsets, configuration and segments of one log.

    Every part may read it. Only these write to it: `LogAppender` and `LogFollowing` raise `log_end_offset`,
    `LogRetention` raises `log_start_offset`, `LogTruncation` lowers all three offsets or sets them when the log begins
    again, and `Log` sets a new `config`. `offline_reason` is None unless the log was found damaged or a sync failed. An
    offline log refuses everything with KAFKA_STORAGE_ERROR until a restart finds it intact.
    """

    __slots__ = (
        "_services",
        "config",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "offline_reason",
        "segments",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        config: TopicConfig,
        services: LogServices,
        segments: Segments,
        loaded: LoadedLog,
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self.segments = segments
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.offline_reason = loaded.offline_reason
        self._services = services

    def __str__(self) -> str:
        return str(self.topic_partition)

    def check_online(self) -> Segment:
        """Returns the active segment. Raises `KafkaError` KAFKA_STORAGE_ERROR for a log that is offline or closed."""
        active = self.segments.active
        if self.offline_reason is not None or active is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason or f"{self} is closed")
        return active

    def mark_offline(self, reason: str) -> None:
        """Refuses everything from now on. The first reason is kept. Any thread may call it."""
        if self.offline_reason is None:
            self.offline_reason = f"{self} is offline: {reason}"
            _logger.error("%s", self.offline_reason)
            self._services.disk_failed()
            self._services.went_offline(self.topic_partition)

    def note_failed_write(self) -> None:
        """Notes that the disk did not take a write, also if the log could go on."""
        self._services.disk_failed()

    def advance_high_watermark(self, offset: Offset) -> None:
        """Raises the high watermark to `offset`. It never falls, and never passes the log end offset."""
        if offset > self.high_watermark:
            end = self.log_end_offset
            # Each append comes here: `min` would cost.
            self.high_watermark = offset if offset < end else end
