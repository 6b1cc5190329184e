"""Drives aiokafka: python -m tests.interop.drivers.drive_aiokafka BOOTSTRAP"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Coroutine, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from tests.interop.drivers.lines import Command, as_bytes, as_text, perform, tell

_NAMES = {"batch.size": "max_batch_size"}


def _settings(config: dict[str, str]) -> dict[str, Any]:
    """Returns Kafka's setting names and texts in aiokafka's form."""
    settings: dict[str, Any] = {"bootstrap_servers": sys.argv[-1]}
    for name, text in config.items():
        if name == "compression.type" and text == "none":
            continue
        value: Any = int(text) if text.lstrip("-").isdecimal() else {"true": True, "false": False}.get(text, text)
        settings[_NAMES.get(name, name.replace(".", "_"))] = value
    return settings


def _as_map(record: ConsumerRecord[bytes, bytes]) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": as_text(record.key),
        "value": as_text(record.value),
        "headers": [[name, as_text(value)] for name, value in record.headers],
    }


async def _produce(command: Command) -> list[list[int]]:
    producer = AIOKafkaProducer(**_settings(command.get("config", {})))
    await producer.start()
    try:
        sent = [
            await producer.send(
                command["topic"],
                key=as_bytes(record.get("key")),
                value=as_bytes(record.get("value")),
                headers=[(name, as_bytes(value)) for name, value in record.get("headers", [])],
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
            )
            for record in command["records"]
        ]
        written = [await future for future in sent]
    finally:
        await producer.stop()
    # A record without acknowledgement has no metadata.
    return [[record.partition, record.offset, record.timestamp] if record is not None else [] for record in written]


async def _transact(command: Command) -> None:
    """Writes each list of "transactions" in a transaction; every second one is aborted."""
    producer = AIOKafkaProducer(**_settings({"transactional.id": command["transactional.id"]}))
    await producer.start()
    try:
        for number, records in enumerate(command["transactions"]):
            await producer.begin_transaction()
            sent = [
                await producer.send(command["topic"], as_bytes(record["value"]), partition=record["partition"])
                for record in records
            ]
            for future in sent:
                await future
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    finally:
        await producer.stop()


async def _read(command: Command) -> list[dict[str, Any]]:
    """Reads all partitions of "topic" from "earliest", "latest", "offset" or "timestamp" on, to the end."""
    topic = command["topic"]
    settings = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"} | command.get("config", {})
    consumer = AIOKafkaConsumer(topic, **_settings(settings))
    await consumer.start()
    try:
        partitions = sorted(consumer.assignment(), key=lambda place: place.partition)
        for partition in partitions:
            # aiokafka finds the start position in the background. Without this wait, it could overwrite the seek below.
            await consumer.position(partition)
        if "offset" in command:
            for partition in partitions:
                consumer.seek(partition, command["offset"])
        elif "timestamp" in command:
            await consumer.seek_to_end(*partitions)
            found = await consumer.offsets_for_times(dict.fromkeys(partitions, command["timestamp"]))
            for partition, place in found.items():
                if place is not None:
                    consumer.seek(partition, place.offset)
        elif command["from"] == "latest":
            await consumer.seek_to_end(*partitions)
        else:
            await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        arrived: list[dict[str, Any]] = []
        while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                arrived += map(_as_map, records)
        return arrived
    finally:
        await consumer.stop()


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka's class has no annotations
    """A group member that runs in its own task."""

    def __init__(self, name: str, topic: str, config: dict[str, str]) -> None:
        self.name = name
        self._consumer = AIOKafkaConsumer(**_settings(config))
        self._consumer.subscribe([topic], listener=self)
        self._task = asyncio.create_task(self._run())
        self._leaving = False

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        tell(self.name, "assigned", partitions=sorted(place.partition for place in assigned))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        tell(self.name, "revoked", partitions=sorted(place.partition for place in revoked))

    async def _run(self) -> None:
        try:
            await self._consumer.start()
            while not self._leaving:
                for records in (await self._consumer.getmany(timeout_ms=100)).values():
                    for record in records:
                        tell(self.name, "record", **_as_map(record))
            await self._consumer.stop()
        except Exception as error:
            tell(self.name, "failed", error=type(error).__name__, message=str(error))
        else:
            tell(self.name, "left")

    async def leave(self) -> None:
        self._leaving = True
        await self._task

    async def rewind(self) -> None:
        await self._consumer.seek_to_beginning()

    async def commit(self) -> None:
        try:
            await self._consumer.commit()
        except Exception as error:
            tell(self.name, "refused", error=str(error))
        else:
            tell(self.name, "committed")


class _Members:
    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}

    async def join(self, command: Command) -> None:
        name = command["name"]
        self._members[name] = _Member(name, command["topic"], command["config"])

    async def leave(self, command: Command) -> None:
        await self._members.pop(command["name"]).leave()

    async def rewind(self, command: Command) -> None:
        await self._members[command["name"]].rewind()

    async def commit(self, command: Command) -> None:
        await self._members[command["name"]].commit()


def main() -> None:
    """Runs the event loop in this thread; another thread reads the operations and waits for each of them."""
    logging.basicConfig(level=logging.WARNING)
    members = _Members()
    operations = {
        "produce": _produce,
        "transact": _transact,
        "read": _read,
        "join": members.join,
        "leave": members.leave,
        "rewind": members.rewind,
        "commit": members.commit,
    }
    loop = asyncio.new_event_loop()

    def blocking(operation: Any) -> Any:
        def run(command: Command) -> Any:
            coroutine: Coroutine[Any, Any, Any] = operation(command)
            return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

        return run

    blocking_operations = {name: blocking(operation) for name, operation in operations.items()}
    threading.Thread(target=perform, args=(blocking_operations, sys.stdin), daemon=True).start()
    loop.run_forever()


if __name__ == "__main__":
    main()
