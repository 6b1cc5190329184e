"""Creates, fills, truncates and reads topics for the Spark tests, through librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.support.group_coordinator import committed_by_group

__all__ = ["Record", "Topic", "create_topic"]

_PATIENCE_S = 60


class Record(NamedTuple):
    """A record as librdkafka reads it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Topic:
    """A topic on the test's broker."""

    name: str
    bootstrap_servers: str
    admin: AdminClient

    def produce(self, values: Iterable[Any], partition: int | None = None, **config: Any) -> None:
        """Writes the values as text, and waits until all records are acknowledged."""
        self.produce_records([{"value": str(value)} for value in values], partition, **config)

    def produce_records(
        self, records: Iterable[Mapping[str, Any]], partition: int | None = None, **config: Any
    ) -> None:
        """Writes records given as keyword arguments of librdkafka's `produce`; all are acknowledged on return."""
        # Idempotence keeps the order when a batch is sent again, which happens while the topic is being created.
        own = {"bootstrap.servers": self.bootstrap_servers, "linger.ms": 1, "enable.idempotence": True}
        producer = Producer({**own, **config})
        failures = []
        for record in records:
            placed = {**record, "partition": partition} if partition is not None else record
            producer.produce(
                self.name, **placed, on_delivery=lambda error, _: failures.append(error) if error else None
            )
            producer.poll(0)
        assert producer.flush(_PATIENCE_S) == 0
        assert not failures

    def options(self, **more: Any) -> dict[str, str]:
        """Options that read this topic, or what `more` chooses; an underscore in a name stands for a dot."""
        is_chosen = not more.keys().isdisjoint({"assign", "subscribePattern"})
        return {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            **({} if is_chosen else {"subscribe": self.name}),
            **{key.replace("_", "."): str(value) for key, value in more.items()},
        }

    def committed(self, group: str, partitions: int = 3) -> list[int]:
        """Returns the committed offset of each partition, or librdkafka's -1001 for a partition without one."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": group})
        try:
            asked = [TopicPartition(self.name, index) for index in range(partitions)]
            return [found.offset for found in committed_by_group(consumer, asked)]
        finally:
            consumer.close()

    def ends(self, partitions: int = 3) -> list[int]:
        """Returns the end offset of each partition."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "none"})
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(self.name, index), timeout=_PATIENCE_S)[1]
                for index in range(partitions)
            ]
        finally:
            consumer.close()

    def records(self, partitions: int = 3) -> list[list[Record]]:
        """Returns the committed records of each partition, in order, when the markers of all ended transactions are
        written."""
        self.wait_for_markers()
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "none", "enable.partition.eof": True}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        found: list[list[Record]] = [[] for _ in range(partitions)]
        ended: set[int | None] = set()
        deadline = time.monotonic() + _PATIENCE_S
        try:
            consumer.assign([TopicPartition(self.name, index, 0) for index in range(partitions)])
            while len(ended) < partitions:
                assert time.monotonic() < deadline, f"only {ended} of {self.name} come to their end"
                message = consumer.poll(1)
                if message is None:
                    continue
                error, partition = message.error(), message.partition()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(partition)
                    continue
                assert partition is not None
                headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
                found[partition].append(Record(message.key(), message.value(), tuple(headers)))
        finally:
            consumer.close()
        return found

    def wait_for_markers(self) -> None:
        """Waits until the markers of all ended transactions are written."""
        # Imported late: a test checks that a plain session imports nothing of klamm in the driver.
        from klamm.client.cluster import Cluster
        from klamm.client.config import ClientConfig
        from klamm.client.transaction_listing import TransactionsClient

        cluster = Cluster(ClientConfig.from_mapping({"bootstrap.servers": self.bootstrap_servers}))
        with closing(TransactionsClient(cluster)) as client:
            assert client.wait_for_markers(_PATIENCE_S), "the markers of a transaction are not written"

    def delete_before(self, offset: int, partition: int = 0) -> None:
        """Moves the log start of a partition to `offset`, as retention does."""
        self.admin.delete_records([TopicPartition(self.name, partition, offset)])[
            TopicPartition(self.name, partition, offset)
        ].result(_PATIENCE_S)

    def grow(self, partitions: int) -> None:
        """Adds partitions until the topic has `partitions` partitions."""
        self.admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(_PATIENCE_S)
        self.wait_until_known(partitions)

    def wait_until_known(self, partitions: int) -> None:
        """Waits until all brokers know this number of partitions.

        They may learn of new partitions after the answer, and a client gives up at an unknown partition.
        """
        deadline = time.monotonic() + _PATIENCE_S
        for address in self.bootstrap_servers.split(","):
            broker = AdminClient({"bootstrap.servers": address})
            while len(broker.list_topics(self.name, timeout=_PATIENCE_S).topics[self.name].partitions) < partitions:
                assert time.monotonic() < deadline, "the topic does not get its partitions"
                time.sleep(0.02)

    def delete(self) -> None:
        """Deletes the topic."""
        self.admin.delete_topics([self.name])[self.name].result(_PATIENCE_S)

    def make_again(self, partitions: int) -> None:
        """Creates a topic with the same name as soon as the deletion of the old topic is finished."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self.admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(_PATIENCE_S)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)


def create_topic(
    admin: AdminClient,
    bootstrap_servers: str,
    name: str,
    partitions: int,
    config: Mapping[str, str],
    *,
    replication_factor: int = 1,
) -> Topic:
    """Creates a topic, and waits until all brokers know it; an underscore in a configuration key stands for a dot.

    Records of these tests have old timestamps, so the topic has no retention by time unless a test sets it.
    """
    settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, replication_factor, config=settings)])[name].result(_PATIENCE_S)
    topic = Topic(name, bootstrap_servers, admin)
    if "," in bootstrap_servers:
        topic.wait_until_known(partitions)
    return topic
