"""Producers: an idempotent one, and one that writes in transactions, dies in the middle, and comes back as a zombie."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer
from tests.checker.history import Problem
from tests.checker.workload.sending import Operation, send
from tests.checker.workload.transactions import TransactionalClient
from tests.checker.workload.worker import PATIENCE_S, Setting, Worker

__all__ = ["PlainProducer", "TransactionalProducer"]

_PENDING = 6
"""Operations that may be on their way at once."""
_RECORDS = 20


class PlainProducer(Worker):
    """Sends without transactions. With a short `timeout_ms` it gives up on records while the broker is away."""

    def __init__(self, setting: Setting, name: str, partitions: Sequence[str], timeout_ms: int) -> None:
        super().__init__(setting, name)
        self._partitions = partitions
        self._timeout_ms = timeout_ms
        self._pending: list[Operation] = []
        self._producer: Producer

    def renew(self) -> None:
        """A new producer id."""
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
        """Some records, each to any partition."""
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
    """Transactions over several partitions; a third is aborted, and some are left open for the next life to settle."""

    def __init__(self, setting: Setting, name: str, partitions: Sequence[str]) -> None:
        super().__init__(setting, name)
        self._partitions = partitions
        self._client: TransactionalClient

    def renew(self) -> None:
        """Fences the one before, and settles what it left."""
        self.begin_life()
        self._client = TransactionalClient(self.setting, self.name, self.process)
        self._client.initialize()

    def step(self) -> None:
        """One transaction."""
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
        else:
            client.end(commits=chance < 0.7)

    def _rise_again(self, zombie: TransactionalClient) -> None:
        """The one before wants to commit what its successor has settled."""
        try:
            zombie.send(self._partitions)
            zombie.end(commits=True, is_fenced=True)
        except KafkaException as error:
            self.recorder.record(Problem(zombie.process, str(error)))
        zombie.discard()

    def finish(self) -> None:
        """A last life, so that nothing is left open."""
        self.renew()
