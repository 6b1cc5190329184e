"""Where a partition begins and ends for consumers, also right after a failover."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.support.patience import Limit

__all__ = ["watermarks_of"]

_PATIENCE_S: Final = 60


def watermarks_of(consumer: Consumer, topic: str, partition: int = 0) -> tuple[int, int]:
    """Returns log start offset and high watermark, as the leader knows them.

    A new leader refuses to tell its high watermark before the in-sync replicas have fetched from it. librdkafka passes
    OFFSET_NOT_AVAILABLE on, so this asks again, for a minute.
    """
    limit = Limit(_PATIENCE_S)
    while True:
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_PATIENCE_S)
        except KafkaException as exception:
            if exception.args[0].code() != KafkaError.OFFSET_NOT_AVAILABLE or limit.is_over:
                raise
            time.sleep(0.1)
        else:
            return start, end
