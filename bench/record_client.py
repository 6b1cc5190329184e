"""One client that handles the records of a topic, as a process: `python -m bench.record_client CLIENT OPTIONS`.

Prints one line of JSON: the records in a second, the processor time of a record, and latencies. Each client handles the
same records with the same handler, which waits and does nothing else. The time counts from the first record that a
handler gets to the last one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal

__all__ = ["CLIENTS", "main"]

_CONCURRENCY: Final = 128
_SHUT_DOWN_SECONDS: Final = 10


class _Meter:
    """Counts the records that handlers have finished."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.seconds: float = options["handler_seconds"]
        self.bootstrap: str = options["bootstrap"]
        self.topic: str = options["topic"]
        self.group: str = options["group"]
        self._count: int = options["count"]
        self._has_latency: bool = options["has_latency"]
        self._handled = 0
        self._began_s = self._began_cpu_s = 0.0
        self._latencies_ms: list[int] = []
        self.done = threading.Event()

    def began(self) -> None:
        """Notes that a handler got a record."""
        if not self._began_s:
            self._began_s, self._began_cpu_s = time.monotonic(), time.process_time()

    def ended(self, timestamp_ms: int) -> None:
        """Notes that a record is handled, and prints the figures after the last one."""
        self._handled += 1
        if self._has_latency:
            # The producer's timestamp is cut to milliseconds too, so the mean of the differences is right.
            self._latencies_ms.append(time.time_ns() // 1_000_000 - timestamp_ms)
        if self._handled == self._count:
            self._report()
            self.done.set()

    def _report(self) -> None:
        seconds = time.monotonic() - self._began_s
        figures = {
            "records_per_second": self._count / seconds,
            "cpu_microseconds": (time.process_time() - self._began_cpu_s) / self._count * 1e6,
        }
        if self._latencies_ms:
            # The first third is the start of the group.
            latencies = sorted(self._latencies_ms[len(self._latencies_ms) // 3 :])
            figures["p50_ms"] = latencies[len(latencies) // 2]
            figures["p99_ms"] = latencies[len(latencies) * 99 // 100]
        print(json.dumps(figures), flush=True)


def _plain_loop(meter: _Meter) -> None:
    """Polls, handles and commits, one record after another."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": meter.bootstrap, "group.id": meter.group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([meter.topic])
    while not meter.done.is_set():
        message = consumer.poll(0.1)
        if message is None or message.error() is not None:
            continue
        meter.began()
        if meter.seconds:
            time.sleep(meter.seconds)
        meter.ended(message.timestamp()[1])
    consumer.close()


def _worker(meter: _Meter, order: Literal["key", "none"] = "key") -> None:
    """Handles records in tasks of `klamm.worker`."""
    from klamm.worker import Record, Worker

    app = Worker(meter.bootstrap, group=meter.group)

    @app.handler(meter.topic, order=order, concurrency=_CONCURRENCY)
    async def handle(record: Record) -> None:
        meter.began()
        if meter.seconds:
            await asyncio.sleep(meter.seconds)
        meter.ended(record.timestamp_ms)
        if meter.done.is_set():
            app.stop()

    app.run(progress=False)


def _tasks(meter: _Meter) -> None:
    """Handles records in tasks of asyncio on aiokafka, without order, as many at once; commits automatically."""
    from aiokafka import AIOKafkaConsumer

    async def handle(message: Any, limit: asyncio.Semaphore) -> None:
        meter.began()
        if meter.seconds:
            await asyncio.sleep(meter.seconds)
        meter.ended(message.timestamp)
        limit.release()

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            meter.topic, bootstrap_servers=meter.bootstrap, group_id=meter.group, auto_offset_reset="earliest"
        )
        await consumer.start()
        limit = asyncio.Semaphore(_CONCURRENCY)
        tasks: set[asyncio.Task[None]] = set()
        async for message in consumer:
            await limit.acquire()
            task = asyncio.create_task(handle(message, limit))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            if meter.done.is_set():
                break
        await asyncio.wait_for(consumer.stop(), _SHUT_DOWN_SECONDS)

    async def run_until_done() -> None:
        running = asyncio.create_task(run())
        await asyncio.to_thread(meter.done.wait)
        running.cancel()

    asyncio.run(run_until_done())


def _faststream(meter: _Meter) -> None:
    """Handles records with a subscriber of FastStream on aiokafka, as many at once, without order of keys."""
    from faststream import AckPolicy, FastStream
    from faststream.kafka import KafkaBroker, KafkaMessage

    broker = KafkaBroker(meter.bootstrap, logger=None)
    app = FastStream(broker, logger=None)

    async def handle(message: KafkaMessage) -> None:
        meter.began()
        if meter.seconds:
            await asyncio.sleep(meter.seconds)
        meter.ended(message.raw_message.timestamp)
        if meter.done.is_set():
            app.exit()

    broker.subscriber(
        meter.topic,
        group_id=meter.group,
        auto_offset_reset="earliest",
        max_workers=_CONCURRENCY,
        ack_policy=AckPolicy.ACK_FIRST,
    )(handle)
    asyncio.run(app.run())


CLIENTS: Final[Mapping[str, tuple[str, Callable[[_Meter], None]]]] = {
    "worker": ("klamm.worker", _worker),
    "unordered": ("klamm.worker without order", partial(_worker, order="none")),
    "plain": ("plain loop", _plain_loop),
    "tasks": ("aiokafka with tasks", _tasks),
    "faststream": ("FastStream", _faststream),
}
"""The title of each client, and what runs it."""


def main() -> None:
    """Runs the client of the command line."""
    meter = _Meter(json.loads(sys.argv[2]))
    CLIENTS[sys.argv[1]][1](meter)


if __name__ == "__main__":
    main()
