"""Consumes, transforms and produces with librdkafka, exactly once; aborts every third transaction.

Usage: python -m tests.interop.drivers.process_exactly_once BOOTSTRAP SOURCE TARGET NAME, where NAME is the group and
the transactional id. Prints "committed N" or "aborted N" after each transaction of N records, and "idle" when no record
arrived for a second. Runs until it is killed.
"""

from __future__ import annotations

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

RECORDS = 2
PATIENCE_S = 30


class Processor:
    """One consumer and one producer, which commit their progress together."""

    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        self.target = target
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                # With an instance id, the processor that starts after a kill takes over the membership at once.
                "group.instance.id": name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # After an abort the processor seeks, and then waits for the fetch in flight.
                "fetch.wait.max.ms": 10,
                "fetch.error.backoff.ms": 10,
            }
        )
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        self.producer.init_transactions(PATIENCE_S)
        self.consumer.subscribe([source])

    def run(self) -> None:
        """Processes records until the process is killed."""
        transactions = 0
        while True:
            messages = self.consumer.consume(RECORDS, 1)
            if not messages:
                print("idle", flush=True)
                continue
            transactions += 1
            try:
                self._process(messages, aborts=transactions % 3 == 0)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self.producer.abort_transaction(PATIENCE_S)
                self._rewind()

    def _process(self, messages: list[Message], *, aborts: bool) -> None:
        self.producer.begin_transaction()
        for message in messages:
            assert message.error() is None, message.error()
            value = message.value()
            assert value is not None
            partition = message.partition()
            assert partition is not None
            self.producer.produce(self.target, value.upper(), partition=partition)
        self.producer.send_offsets_to_transaction(
            self.consumer.position(self.consumer.assignment()), self.consumer.consumer_group_metadata(), PATIENCE_S
        )
        if aborts:
            # Without a flush librdkafka may drop all records of the transaction before it has sent one.
            self.producer.flush(PATIENCE_S)
            self.producer.abort_transaction(PATIENCE_S)
            self._rewind()
        else:
            self.producer.commit_transaction(PATIENCE_S)
        print("aborted" if aborts else "committed", len(messages), flush=True)

    def _rewind(self) -> None:
        for partition in self.consumer.committed(self.consumer.assignment(), PATIENCE_S):
            offset = partition.offset if partition.offset >= 0 else OFFSET_BEGINNING
            self.consumer.seek(TopicPartition(partition.topic, partition.partition, offset))


if __name__ == "__main__":
    Processor(*sys.argv[1:5]).run()
