"""Questions to the coordinator of a group, which may move or load the group's partition at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.support.patience import Limit

__all__ = ["ask_coordinator", "committed_by_group"]

T = TypeVar("T")

_PATIENCE_S: Final = 60
_PAUSE_S: Final = 0.1
_NOT_YET: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)


def ask_coordinator(ask: Callable[[], T]) -> T:
    """Repeats `ask`, for example for committed offsets, until the coordinator answers, for at most a minute.

    librdkafka does not retry these errors. They are normal in a cluster: a broker that has not learned of an election
    yet names the coordinator before, and the next coordinator loads the group first.
    """
    limit = Limit(_PATIENCE_S)
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or limit.is_over:
                raise
            time.sleep(_PAUSE_S)


def committed_by_group(consumer: Consumer, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Returns what the consumer's group has committed, as soon as its coordinator answers."""
    return ask_coordinator(lambda: consumer.committed(list(partitions), timeout=_PATIENCE_S))
