"""Measures the metadata store in etcd: the load of 10,000 partitions, and the time until every broker sees a new topic.

`python -m bench.etcd_metadata`; with KLAMM_TEST_ETCD=current, a current etcd. One member, without syncs to the disk,
and three brokers' services in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

from tests.support.etcd_server import Etcd

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.etcd.etcd_store import EtcdStore
from klamm.metadata.image import MetadataImage
from klamm.metadata.service import MetadataService, NewTopic
from klamm.protocol.types import BrokerId

__all__ = ["main"]

_PARTITIONS_OF_TOPIC: Final = 100
_ROUNDS: Final = 5
_BROKERS: Final = 3
_NEW_TOPICS: Final = 50


async def _open(etcd: Etcd, broker_id: int) -> MetadataService:
    store = await EtcdStore.open(etcd.address("bench"), session_timeout_s=60)
    return await MetadataService.open(store, BrokerConfig(node_id=BrokerId(broker_id)))


async def _load(etcd: Etcd, partitions: int) -> None:
    wall, processor = [], []
    for _ in range(_ROUNDS):
        began, used = perf_counter(), process_time()
        service = await _open(etcd, 9)
        wall.append(perf_counter() - began)
        processor.append(process_time() - used)
        assert sum(len(topic.partitions) for topic in service.image.topics.values()) == partitions
        await service.close()
    print(
        f"open a session and load {partitions} partitions: {median(wall) * 1000:.0f} ms, "
        f"{median(processor) * 1000:.0f} ms of processor time (medians of {_ROUNDS})"
    )


async def _new_topics(services: list[MetadataService]) -> None:
    times = []
    for number in range(_NEW_TOPICS):
        name = f"new-{number}"
        are_there = [asyncio.Event() for _ in services]
        for service, event in zip(services, are_there, strict=True):
            service.subscribe(_setter(name, event))
        began = perf_counter()
        await services[0].create_topics([NewTopic(name, partitions=6)])
        for event in are_there:
            await event.wait()
        times.append(perf_counter() - began)
    times.sort()
    print(f"a new topic on {len(services)} brokers: {median(times) * 1000:.1f} ms, worst {times[-1] * 1000:.1f} ms")


def _setter(name: str, event: asyncio.Event) -> Callable[[MetadataImage, MetadataImage], None]:
    def look(old: MetadataImage, new: MetadataImage) -> None:
        if name in new.topics:
            event.set()

    return look


async def _run(etcd: Etcd, partitions: int) -> None:
    services = [await _open(etcd, broker_id) for broker_id in range(1, _BROKERS + 1)]
    for number, service in enumerate(services):
        await service.start_broker({"PLAINTEXT": ("127.0.0.1", 9092 + number)})
    began = perf_counter()
    for number in range(partitions // _PARTITIONS_OF_TOPIC):
        await services[0].create_topics([NewTopic(f"topic-{number}", partitions=_PARTITIONS_OF_TOPIC)])
    print(f"create {partitions} partitions, {_PARTITIONS_OF_TOPIC} a topic: {perf_counter() - began:.2f} s")
    await _load(etcd, partitions)
    await _new_topics(services)
    for service in services:
        await service.close()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    partitions = parser.parse_args().partitions
    with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder)) as etcd:
        asyncio.run(_run(etcd, partitions))


if __name__ == "__main__":
    main()
