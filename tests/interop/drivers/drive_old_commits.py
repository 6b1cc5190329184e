"""Drives confluent-kafka with members that commit offset 0 of their partitions before they leave.

The members of `drive_confluent_kafka` commit old offsets only now and then; `Life.check_that_nothing_was_lost` explains
why.
"""

from __future__ import annotations

from confluent_kafka import TopicPartition
from tests.interop.drivers.drive_confluent_kafka import ConfluentMember, serve


class _Member(ConfluentMember):
    def close(self) -> None:
        owned = self.consumer.assignment()
        if owned:
            old = [TopicPartition(place.topic, place.partition, 0) for place in owned]
            self.consumer.commit(offsets=old, asynchronous=False)
        super().close()


if __name__ == "__main__":
    serve(_Member)
