"""Committed offsets of a group whose coordinator may just begin: it has started, or has moved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.support.patience import Limit

__all__ = ["committed_offsets"]

_ANSWER_S: Final = 60.0
_PAUSE_S: Final = 0.1
_NOT_YET: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)


def committed_offsets(consumer: Consumer, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Returns what the consumer's group has committed. Asks again while the coordinator is not ready, because
    librdkafka passes NOT_COORDINATOR on."""
    limit = Limit(_ANSWER_S)
    while True:
        try:
            return consumer.committed(list(partitions), timeout=_ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or limit.is_over:
                raise
            time.sleep(_PAUSE_S)
