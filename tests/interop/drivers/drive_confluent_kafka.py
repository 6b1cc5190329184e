"""Drives confluent-kafka (librdkafka): python -m tests.interop.drivers.drive_confluent_kafka BOOTSTRAP"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place
from tests.interop.drivers.lines import Command, as_bytes, as_text, perform
from tests.interop.drivers.member_thread import Members, MemberThread

__all__ = ["ConfluentMember", "serve"]

_TIMEOUT_S = 30.0
_COMMON = {"bootstrap.servers": sys.argv[-1], "log_level": 2}


def _headers(message: Message) -> list[tuple[str, bytes | str | None]]:
    headers = message.headers()
    return headers if isinstance(headers, list) else []


def _as_map(message: Message) -> dict[str, Any]:
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": as_text(message.key()),
        "value": as_text(message.value()),
        "headers": [[name, as_text(value)] for name, value in _headers(message)],
    }


def _produce(command: Command) -> list[list[int]]:
    producer = Producer(_COMMON | {"partitioner": "murmur2_random"} | command.get("config", {}))
    answers: list[list[int]] = [[] for _ in command["records"]]
    errors: list[KafkaError] = []

    def deliver_to(index: int) -> Callable[[KafkaError | None, Message], None]:
        def deliver(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
                return
            answers[index] = [message.partition() or 0, message.offset() or 0, message.timestamp()[1]]

        return deliver

    for index, record in enumerate(command["records"]):
        optional = {name: record[name] for name in ("partition", "timestamp") if name in record}
        producer.produce(
            command["topic"],
            key=as_bytes(record.get("key")),
            value=as_bytes(record.get("value")),
            headers=[(name, as_bytes(value)) for name, value in record.get("headers", [])],
            on_delivery=deliver_to(index),
            **optional,
        )
    producer.flush(_TIMEOUT_S)
    if errors:
        raise KafkaException(errors[0])
    return answers


def _transact(command: Command) -> None:
    """Writes each list of "transactions" in a transaction; every second one is aborted."""
    producer = Producer(_COMMON | {"transactional.id": command["transactional.id"]})
    producer.init_transactions(_TIMEOUT_S)
    for number, records in enumerate(command["transactions"]):
        producer.begin_transaction()
        for record in records:
            producer.produce(command["topic"], as_bytes(record["value"]), partition=record["partition"])
        producer.flush(_TIMEOUT_S)
        if number % 2:
            producer.abort_transaction(_TIMEOUT_S)
        else:
            producer.commit_transaction(_TIMEOUT_S)


def _read(command: Command) -> list[dict[str, Any]]:
    """Reads all partitions of "topic" from "earliest", "latest", "offset" or "timestamp" on, to the end."""
    topic = command["topic"]
    config = {"group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 50}
    consumer = Consumer(_COMMON | config | command.get("config", {}))
    try:
        partitions = sorted(consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions)
        if "timestamp" in command:
            moments = [Place(topic, partition, command["timestamp"]) for partition in partitions]
            places = consumer.offsets_for_times(moments, timeout=_TIMEOUT_S)
        else:
            named = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
            offset = command["offset"] if "offset" in command else named[command["from"]]
            places = [Place(topic, partition, offset) for partition in partitions]
        consumer.assign(places)
        arrived: list[dict[str, Any]] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(_TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"{len(partitions) - len(ended)} partitions have not ended")
            error = message.error()
            if error is None:
                arrived.append(_as_map(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
            else:
                raise KafkaException(error)
        return arrived
    finally:
        consumer.close()


class ConfluentMember(MemberThread):
    """A member with confluent-kafka's Consumer, which commits automatically."""

    def __init__(self, name: str, topic: str, config: dict[str, str]) -> None:
        super().__init__(name)
        self._topic = topic
        self._is_incremental = (
            config.get("partition.assignment.strategy") == "cooperative-sticky"
            or config.get("group.protocol") == "consumer"
        )
        self.consumer = Consumer(_COMMON | config)
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _on_assign(self, consumer: Consumer, places: list[Place]) -> None:
        if self._is_incremental:
            consumer.incremental_assign(places)
        else:
            consumer.assign(places)
        self.tell("assigned", partitions=sorted(place.partition for place in consumer.assignment()))

    def _on_revoke(self, consumer: Consumer, places: list[Place]) -> None:
        self.tell("revoked", partitions=sorted(place.partition for place in places))

    def _on_lost(self, consumer: Consumer, places: list[Place]) -> None:
        self.tell("lost", partitions=sorted(place.partition for place in places))

    def poll(self) -> Iterable[dict[str, Any]]:
        for message in self.consumer.consume(100, 0.1):
            error = message.error()
            if error is None:
                yield _as_map(message)
            elif error.fatal() or error.code() in (KafkaError._LOG_TRUNCATION, KafkaError._AUTO_OFFSET_RESET):
                raise KafkaException(error)

    def rewind(self) -> None:
        for place in self.consumer.assignment():
            self.consumer.seek(Place(place.topic, place.partition, OFFSET_BEGINNING))

    def commit_position(self) -> None:
        for place in self.consumer.commit(asynchronous=False) or []:
            if place.error is not None:
                raise KafkaException(place.error)

    def close(self) -> None:
        self.consumer.close()


def serve(new_member: Callable[[str, str, dict[str, str]], MemberThread]) -> None:
    """Performs the operations from standard input; `new_member` makes a member of name, topic and config."""
    members = Members(new_member)
    operations = {
        "produce": _produce,
        "transact": _transact,
        "read": _read,
        "join": members.join,
        "leave": members.leave,
        "rewind": members.rewind,
        "commit": members.commit,
        "stall": members.stall,
        "hold": members.hold,
        "release": members.release,
    }
    perform(operations, sys.stdin)


if __name__ == "__main__":
    serve(ConfluentMember)
