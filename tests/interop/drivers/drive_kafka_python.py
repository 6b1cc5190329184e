"""Drives kafka-python: python -m tests.interop.drivers.drive_kafka_python BOOTSTRAP"""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Iterable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaConnectionError
from tests.interop.drivers.lines import DROPPED_JOIN, Command, as_bytes, as_text, perform
from tests.interop.drivers.member_thread import Members, MemberThread

_logger = logging.getLogger(__name__)

_TIMEOUT_S = 30
# kafka-python 3.0 drops the answer to a join that arrives between two polls, and joins again; with Apache Kafka, too.
# Two members that poll at the same pace may do so again and again. A member that has to join therefore polls for longer
# than a join takes, and the other polls have no common pace.
_POLL_MS = (200, 460)
_JOINING_POLL_MS = 1_000
# If the answer was dropped, the coordinator keeps the member that it names until its session ends.
_SESSION_TIMEOUT_MS = "10000"


def _settings(config: dict[str, str]) -> dict[str, Any]:
    """Returns Kafka's setting names and texts in kafka-python's form."""
    settings: dict[str, Any] = {"bootstrap_servers": sys.argv[-1]}
    for name, text in config.items():
        if name == "compression.type" and text == "none":
            continue
        value: Any = int(text) if text.lstrip("-").isdecimal() else {"true": True, "false": False}.get(text, text)
        settings[name.replace(".", "_")] = value
    return settings


def _as_map(record: Any) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": as_text(record.key),
        "value": as_text(record.value),
        "headers": [[name, as_text(value)] for name, value in record.headers],
    }


def _produce(command: Command) -> list[list[int]]:
    producer = KafkaProducer(**_settings(command.get("config", {})))
    try:
        sent = [
            producer.send(
                command["topic"],
                key=as_bytes(record.get("key")),
                value=as_bytes(record.get("value")),
                headers=[(name, as_bytes(value)) for name, value in record.get("headers", [])],
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
            )
            for record in command["records"]
        ]
        producer.flush(_TIMEOUT_S)
        metadata = [future.get(_TIMEOUT_S) for future in sent]
    finally:
        producer.close()
    return [[record.partition, record.offset, record.timestamp] for record in metadata]


def _transact(command: Command) -> None:
    """Writes each list of "transactions" in a transaction; every second one is aborted."""
    producer = KafkaProducer(**_settings({"transactional.id": command["transactional.id"]}))
    try:
        producer.init_transactions()
        for number, records in enumerate(command["transactions"]):
            producer.begin_transaction()
            sent = [
                producer.send(command["topic"], value=as_bytes(record["value"]), partition=record["partition"])
                for record in records
            ]
            producer.flush(_TIMEOUT_S)
            for future in sent:
                future.get(_TIMEOUT_S)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    finally:
        producer.close()


def _read(command: Command) -> list[dict[str, Any]]:
    """Reads all partitions of "topic" from "earliest", "latest", "offset" or "timestamp" on, to the end."""
    topic = command["topic"]
    consumer = KafkaConsumer(**_settings({"enable.auto.commit": "false"} | command.get("config", {})))
    try:
        partitions = [TopicPartition(topic, index) for index in sorted(consumer.partitions_for_topic(topic))]
        consumer.assign(partitions)
        if "offset" in command:
            for partition in partitions:
                consumer.seek(partition, command["offset"])
        elif "timestamp" in command:
            consumer.seek_to_end(*partitions)
            found = consumer.offsets_for_times(dict.fromkeys(partitions, command["timestamp"]))
            for partition, place in found.items():
                if place is not None:
                    consumer.seek(partition, place.offset)
        elif command["from"] == "latest":
            consumer.seek_to_end(*partitions)
        else:
            consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        arrived: list[dict[str, Any]] = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for records in consumer.poll(timeout_ms=200).values():
                arrived += map(_as_map, records)
        return arrived
    finally:
        consumer.close()


def _log_dropped_joins(coordinator: Any) -> None:
    """Logs DROPPED_JOIN when kafka-python begins a join although it has not used the answer to the last one."""
    join, complete = coordinator._do_join_and_sync_async, coordinator._on_join_complete_async
    has_unused_answer = False

    async def join_and_sync() -> Any:
        nonlocal has_unused_answer
        if has_unused_answer:
            _logger.warning("%s", DROPPED_JOIN)
        has_unused_answer = False
        answer = await join()
        has_unused_answer = True
        return answer

    async def on_join_complete(*arguments: Any) -> None:
        nonlocal has_unused_answer
        has_unused_answer = False
        await complete(*arguments)

    coordinator._do_join_and_sync_async = join_and_sync
    coordinator._on_join_complete_async = on_join_complete


class _Member(MemberThread, ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no annotations
    def __init__(self, name: str, topic: str, config: dict[str, str]) -> None:
        super().__init__(name)
        self._consumer = KafkaConsumer(**_settings({"session.timeout.ms": _SESSION_TIMEOUT_MS} | config))
        _log_dropped_joins(self._consumer._coordinator)
        # kafka-python's assignor assigns no partitions of a topic that is missing from its metadata, and this member
        # may become the leader.
        while not self._consumer.partitions_for_topic(topic):
            time.sleep(0.05)
        self._consumer.subscribe([topic], listener=self)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.tell("assigned", partitions=sorted(place.partition for place in self._consumer.assignment()))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.tell("revoked", partitions=sorted(place.partition for place in revoked))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.tell("lost", partitions=sorted(place.partition for place in lost))

    def poll(self) -> Iterable[dict[str, Any]]:
        is_joining = self._consumer._coordinator.need_rejoin()
        timeout_ms = _JOINING_POLL_MS if is_joining else random.randint(*_POLL_MS)
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms)
        except KafkaConnectionError:
            # If no broker answers while it looks for the coordinator, kafka-python asks for metadata and passes the
            # failure of this request on (`ensure_coordinator_ready_async` of 3.0). The error is retriable.
            return
        for records in polled.values():
            yield from map(_as_map, records)

    def rewind(self) -> None:
        self._consumer.seek_to_beginning()

    def commit_position(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("kafka.coordinator").setLevel(logging.INFO)  # tells why a member joins again
    members = Members(_Member)
    operations = {
        "produce": _produce,
        "transact": _transact,
        "read": _read,
        "join": members.join,
        "leave": members.leave,
        "rewind": members.rewind,
        "commit": members.commit,
    }
    perform(operations, sys.stdin)
