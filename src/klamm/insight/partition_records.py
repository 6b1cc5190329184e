"""Reads one partition from an offset on, as an ordinary consumer without a group does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess

__all__ = ["END", "PartitionReader"]

POLL_S: Final = 0.5
AT_END_WAIT_MS: Final = 50
END: Final = None
"""Comes out of a reader each time it has caught up with the partition's end."""


class PartitionReader:
    """An ordinary consumer that leaves no trace on the cluster. Methods raise ClusterError.

    Where a partition grows faster than it is asked, its end as librdkafka tells it never comes. So what counts is where
    it ended when the reading began.
    """

    def __init__(self, access: ClusterAccess, *, follow: bool = False) -> None:
        """`follow`: it will wait for more at the end."""
        self._access = access
        settings: dict[str, Any] = {
            "group.id": "klamm-reader",  # librdkafka wants one; it is never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
        if not follow:
            # A broker that has nothing more waits this long before it says so.
            settings["fetch.wait.max.ms"] = AT_END_WAIT_MS
        self._consumer = access.connect(Consumer, **settings)
        self._end: int | None = None
        """Where the partition ended when the reading began; None once that is behind."""

    def partition_count(self, topic: str) -> int | None:
        """How many partitions a topic has; None where there is no such topic."""
        # Asking for one topic by its name may create it; asking for all of them doesn't.
        topics = self._access.translate(lambda: self._consumer.list_topics(timeout=TIMEOUT_S)).topics
        return len(topics[topic].partitions) if topic in topics else None

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset there is, and the one behind the last."""
        place = TopicPartition(topic, partition)
        return self._access.translate(lambda: self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S))

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The offset of the first record from that moment on; the end, if none is that young."""
        moment = TopicPartition(topic, partition, timestamp_ms)
        found = self._access.translate(lambda: self._consumer.offsets_for_times([moment], timeout=TIMEOUT_S))[0]
        return found.offset if found.offset >= 0 else self.bounds(topic, partition)[1]

    def read(self, topic: str, partition: int, offset: int = OFFSET_BEGINNING) -> Iterator[Message | None]:
        """Every record from `offset` on, and END each time there is no more for now. It never ends by itself.

        END comes also where the partition ended at first.
        """
        self.start(topic, partition, offset)
        while True:
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield message
                if self._is_at_end(message):
                    yield END
            elif error.code() == KafkaError._PARTITION_EOF:
                yield END
            else:
                raise self._access.cluster_error(error)

    def start(self, topic: str, partition: int, offset: int = OFFSET_BEGINNING) -> None:
        """Begins to read, for `available`."""
        self._end = self.bounds(topic, partition)[1]
        self._consumer.assign([TopicPartition(topic, partition, offset)])

    def available(self, patience_s: float) -> list[Message]:
        """What there is to read now: until the end is reached, or nothing comes for `patience_s`.

        The first time that is the end of when the reading began.
        """
        found: list[Message] = []
        while (message := self._consumer.poll(patience_s)) is not None:
            error = message.error()
            if error is None:
                found.append(message)
                if self._is_at_end(message):
                    break
            elif error.code() == KafkaError._PARTITION_EOF:
                break
            else:
                raise self._access.cluster_error(error)
        return found

    def _is_at_end(self, message: Message) -> bool:
        if self._end is None or (message.offset() or 0) + 1 < self._end:
            return False
        self._end = None
        return True

    def close(self) -> None:
        """Ends the consumer."""
        self._consumer.close()
