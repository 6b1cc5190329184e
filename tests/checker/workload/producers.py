"""Producers: an idempotent one, and one that writes in transactions, abandons some and returns as a zombie."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer
from tests.checker.history import Problem
from tests.checker.workload.sending import Operation, send
from tests.checker.workload.transactions import TransactionalClient
from tests.checker.workload.worker import PATIENCE_S, Setting, Worker

__all__ = ["PlainProducer", "TransactionalProducer"]

_PENDING = 6
"""Number of operations that may be in flight at once."""
_RECORDS = 20


class PlainProducer(Worker):
    """A producer without transactions. With a short `timeout_ms` it gives up on records while the broker is away."""

    def __init__(self, setting: Setting, name: str, partitions: Sequence[str], timeout_ms: int) -> None:
        super().__init__(setting, name)
        self._partitions = partitions
        self._timeout_ms = timeout_ms
        self._pending: list[Operation] = []
        self._producer: Producer

    def renew(self) -> None:
        """Starts a new client, which gets a new producer id."""
        self.begin_life()
        self._pending.clear()
        self._producer = Producer(
            self.setting.client_config()
            | {
                "enable.idempotence": True,
                "linger.ms": self.random.choice((0, 1, 5)),
                "message.timeout.ms": self._timeout_ms,
                "request.timeout.ms": 2000,
            }
        )

    def step(self) -> None:
        """Sends some records to random partitions."""
        chosen = self.random.choices(self._partitions, k=self.random.randint(1, _RECORDS))
        self._pending.append(send(self.setting, self.process, self._producer, chosen))
        self._producer.poll(0)
        while sum(not each.is_done for each in self._pending) > _PENDING:
            self._producer.poll(0.1)
        self._pending = [each for each in self._pending if not each.is_done]
        self.pause(self.random.random() * 0.1)

    def finish(self) -> None:
        """Waits for the last answers."""
        if left := self._producer.flush(self.setting.stretched(PATIENCE_S)):
            self.recorder.record(Problem(self.process, f"{left} records are still not answered"))


class TransactionalProducer(Worker):
    """A producer of transactions over several partitions.

    It aborts about a third of the transactions, and leaves some open for its next life to end.
    """

    def __init__(self, setting: Setting, name: str, partitions: Sequence[str]) -> None:
        super().__init__(setting, name)
        self._partitions = partitions
        self._client: TransactionalClient

    def renew(self) -> None:
        """Starts a new client, which fences the previous one and ends its open transaction."""
        self.begin_life()
        self._client = TransactionalClient(self.setting, self.name, self.process)
        self._client.initialize()

    def step(self) -> None:
        """Runs one transaction."""
        client = self._client
        client.begin()
        for _ in range(self.random.randint(1, 3)):
            client.send(self.random.choices(self._partitions, k=self.random.randint(1, _RECORDS)))
            self.pause(self.random.random() * 0.1)
        chance = self.random.random()
        if chance < 0.05:
            client.flush()
            self.renew()
            if chance < 0.025:
                self._rise_again(client)
        elif (not client.end(commits=chance < 0.7) or chance >= 0.7) and client.is_unsafe_after_abort:
            self.renew()

    def _rise_again(self, zombie: TransactionalClient) -> None:
        """Lets the previous client try to commit a transaction that its successor has ended."""
        try:
            zombie.send(self._partitions)
            zombie.end(commits=True, is_fenced=True)
        except KafkaException as error:
            self.recorder.record(Problem(zombie.process, str(error)))
        zombie.discard()

    def finish(self) -> None:
        """Starts a last client, so that no transaction stays open."""
        self.renew()
