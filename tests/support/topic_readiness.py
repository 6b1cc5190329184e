"""Waits for what Apache Kafka does after it has answered: leaders open logs, and coordinators write markers."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.support.patience import Limit

__all__ = ["wait_until_led", "wait_until_transactions_ended"]

_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.02


def wait_until_led(bootstrap: str, topic: str, partitions: int) -> None:
    """Waits until the leaders of a new topic serve it.

    Apache Kafka names a partition's leader before the leader has opened the log. Producers then retry, but a producer
    with acks=0 gets no error, so its records would be lost; and single requests fail.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    waiting = {TopicPartition(topic, index) for index in range(partitions)}
    limit = Limit(_PATIENCE_S)
    while True:
        asked = admin.list_offsets(dict.fromkeys(waiting, OffsetSpec.latest()))
        waiting = {each for each, answer in asked.items() if answer.exception(_PATIENCE_S) is not None}
        if not waiting:
            return
        assert not limit.is_over, f"without a leader: {waiting}"
        time.sleep(_PAUSE_S)


def wait_until_transactions_ended(bootstrap: str, topic: str, partitions: int) -> None:
    """Waits until the markers of all transactions are written, which the end of a transaction does not wait for.

    A consumer with read_committed that comes earlier finds the end of the partition before the last transaction.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    limit = Limit(_PATIENCE_S)
    while _ends(admin, topic, partitions, IsolationLevel.READ_COMMITTED) != _ends(
        admin, topic, partitions, IsolationLevel.READ_UNCOMMITTED
    ):
        assert not limit.is_over, f"markers are missing in {topic}"
        time.sleep(_PAUSE_S)


def _ends(admin: AdminClient, topic: str, partitions: int, isolation_level: IsolationLevel) -> dict[int, int]:
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
    answers = admin.list_offsets(wanted, isolation_level=isolation_level)
    return {place.partition: answer.result(_PATIENCE_S).offset for place, answer in answers.items()}
