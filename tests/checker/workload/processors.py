"""Consume, transform, produce: group members that commit their offsets in the transactions of their outputs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from confluent_kafka import KafkaException, TopicPartition
from tests.checker.history import Assign, Fetch, Fetched
from tests.checker.workload.consumers import PollingConsumer, committed_offsets, partition_name
from tests.checker.workload.transactions import TransactionalClient
from tests.checker.workload.worker import PATIENCE_S, Setting, Worker, code_of

__all__ = ["Processor"]

_RECORDS = (40, 40, 400)
"""Maximum sizes of a transaction, chosen by chance. The large one lets a processor catch up."""


class Processor(Worker):
    """A group member that writes one record for each record it reads.

    It aborts about a fifth of its transactions and abandons some.
    """

    def __init__(self, setting: Setting, name: str, group: str, topic: str, targets: Sequence[str]) -> None:
        super().__init__(setting, name)
        self._group = group
        self._topic = topic
        self._targets = targets
        self._consumer: PollingConsumer | None = None
        self._client: TransactionalClient

    def renew(self) -> None:
        """Starts a new member with a new producer, which ends the open transaction of the previous one."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self.begin_life()
        self._client = TransactionalClient(self.setting, self.name, self.process)
        self._client.initialize()
        self._consumer = PollingConsumer(
            self.setting,
            self.process,
            "read_committed",
            {
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 4000,
                # A rebalance waits this long for a member that is stuck in its transaction.
                "max.poll.interval.ms": 20_000,
                "heartbeat.interval.ms": 500,
            },
        )
        self._consumer.subscribe(self._group, [self._topic])

    def step(self) -> None:
        """Runs one transaction, if there are records to read."""
        consumer = self._consumer
        assert consumer is not None
        polled = consumer.turn(self.random.choice(_RECORDS))
        if not polled:
            return
        offsets: dict[str, int] = {}
        for partition, offset, _ in polled:
            offsets[partition] = offset + 1
        self._client.begin()
        # The value decides the target partition, so that every processor would choose the same one.
        targets = [self._targets[zlib.crc32(b"%d" % value) % len(self._targets)] for _, _, value in polled]
        self._client.send(targets, sources=[value for _, _, value in polled])
        try:
            self._client.send_offsets(self._group, offsets, consumer.client)
        except KafkaException as error:
            if not code_of(error).txn_requires_abort():
                raise
            self._client.abort()
            self._go_on_after_abort(consumer)
            return
        chance = self.random.random()
        if chance < 0.03:
            self.renew()
        elif not self._client.end(commits=chance < 0.8) or chance >= 0.8:
            self._go_on_after_abort(consumer)

    def _go_on_after_abort(self, consumer: PollingConsumer) -> None:
        if self._client.is_unsafe_after_abort:
            self.renew()
        else:
            self._rewind(consumer)

    def _rewind(self, consumer: PollingConsumer) -> None:
        """Seeks to the committed offsets, so that uncommitted records are read again."""
        assignment = consumer.client.assignment()
        operation = self.setting.next_operation()
        self.recorder.record(Fetch(self.process, operation, self._group))
        found = committed_offsets(consumer.client, assignment, self.setting.stretched(PATIENCE_S))
        self.recorder.record(Fetched(self.process, operation, tuple(found.items())))
        positions = {name: offset or 0 for name, offset in found.items()}
        self.recorder.record(Assign(self.process, tuple(positions.items()), self._group))
        for each in assignment:
            consumer.client.seek(TopicPartition(each.topic, each.partition, positions[partition_name(each)]))

    def finish(self) -> None:
        """Leaves the group and ends an open transaction."""
        if self._consumer is not None:
            self._consumer.close()
        self.begin_life()
        TransactionalClient(self.setting, self.name, self.process).initialize()
