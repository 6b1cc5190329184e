"""Reads one partition from an offset on, with an ordinary consumer outside any group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess

__all__ = ["END", "PartitionReader"]

_POLL_S: Final = 0.5
_AT_END_WAIT_MS: Final = 50
END: Final = None
"""What a reader yields each time it reaches the partition's end."""


class PartitionReader:
    """An ordinary consumer that leaves no trace on the cluster. Methods raise ClusterError.

    If a partition grows faster than it is read, librdkafka never reports its end. So the reader also compares with the
    end offset at the time when the reading began.
    """

    def __init__(self, access: ClusterAccess, *, follow: bool = False) -> None:
        """Connects to the cluster. `follow`: the reader will wait at the end for more records."""
        self._access = access
        self._follows = follow
        settings: dict[str, Any] = {
            "group.id": "klamm-reader",  # librdkafka requires one; the consumer never joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
        if not follow:
            # At the end, a broker waits this long before it answers.
            settings["fetch.wait.max.ms"] = _AT_END_WAIT_MS
        self._consumer = access.connect(Consumer, **settings)
        self._end: int | None = None
        """The partition's end offset when the reading began; None after the reader has reached it."""

    def partition_count(self, topic: str) -> int | None:
        """Returns the number of partitions of a topic; None if the topic does not exist."""
        # A metadata request for one topic may create it; a request for all topics doesn't.
        topics = self._access.translate(lambda: self._consumer.list_topics(timeout=TIMEOUT_S)).topics
        return len(topics[topic].partitions) if topic in topics else None

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Returns the log start offset and the end offset of a partition."""
        place = TopicPartition(topic, partition)
        return self._access.translate(lambda: self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S))

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Returns the offset of the first record at or after the timestamp; the end offset if there is none."""
        moment = TopicPartition(topic, partition, timestamp_ms)
        found = self._access.translate(lambda: self._consumer.offsets_for_times([moment], timeout=TIMEOUT_S))[0]
        if found.error is not None:  # the end in its place would skip records
            raise self._access.cluster_error(found.error)
        return found.offset if found.offset >= 0 else self.bounds(topic, partition)[1]

    def read(self, topic: str, partition: int, offset: int = OFFSET_BEGINNING) -> Iterator[Message | None]:
        """Yields every record from `offset` on, and END each time the reader reaches the end. Never returns.

        Yields END also at the offset where the partition ended when the reading began. A reader that does not follow
        raises ClusterError if nothing arrives for ten seconds, for example because the leader is away.
        """
        self.start(topic, partition, offset)
        silent_polls = 0
        while True:
            message = self._consumer.poll(_POLL_S)
            if message is None:
                silent_polls += 1
                if not self._follows and silent_polls * _POLL_S >= TIMEOUT_S:
                    raise self._access.unreachable(f"nothing arrives from {topic}-{partition}")
                continue
            silent_polls = 0
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
        """Begins to read from `offset`; `available` returns the records."""
        self._end = self.bounds(topic, partition)[1]
        self._consumer.assign([TopicPartition(topic, partition, offset)])

    def available(self, patience_s: float) -> Iterator[Message]:
        """Yields the records up to the partition's end; stops early if no record arrives for `patience_s`.

        The first call reads up to the end offset at the time when the reading began. The partition may be large, so the
        records are not kept.
        """
        while (message := self._consumer.poll(patience_s)) is not None:
            error = message.error()
            if error is None:
                yield message
                if self._is_at_end(message):
                    break
            elif error.code() == KafkaError._PARTITION_EOF:
                break
            else:
                raise self._access.cluster_error(error)

    def _is_at_end(self, message: Message) -> bool:
        if self._end is None or (message.offset() or 0) + 1 < self._end:
            return False
        self._end = None
        return True

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()
