"""Measures the metadata store in etcd: the load of 10,000 partitions, and the time until every broker sees a new topic.

`python -m bench.etcd_metadata`; with KLAMM_TEST_ETCD=current, a current etcd. One member, whose data is in memory, and
three brokers' services in this process. `--sync` puts the data into the folder for temporary files, and etcd syncs it.
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


async def _new_topics(services: list[MetadataService], replicas: int) -> None:
    times = []
    for number in range(_NEW_TOPICS):
        name = f"new-{number}"
        are_there = [asyncio.Event() for _ in services]
        for service, event in zip(services, are_there, strict=True):
            service.subscribe(_setter(name, event))
        began = perf_counter()
        await services[0].create_topics([NewTopic(name, partitions=6, replication_factor=replicas)])
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


async def _run(etcd: Etcd, partitions: int, replicas: int) -> None:
    services = [await _open(etcd, broker_id) for broker_id in range(1, _BROKERS + 1)]
    for number, service in enumerate(services):
        await service.start_broker({"PLAINTEXT": ("127.0.0.1", 9092 + number)})
    while len(services[0].image.brokers) < _BROKERS:  # noqa: ASYNC110 - the watch changes it
        await asyncio.sleep(0.001)
    began = perf_counter()
    for number in range(partitions // _PARTITIONS_OF_TOPIC):
        topic = NewTopic(f"topic-{number}", partitions=_PARTITIONS_OF_TOPIC, replication_factor=replicas)
        await services[0].create_topics([topic])
    print(
        f"create {partitions} partitions with {replicas} replicas, {_PARTITIONS_OF_TOPIC} a topic: "
        f"{perf_counter() - began:.2f} s"
    )
    await _load(etcd, partitions)
    await _new_topics(services, replicas)
    for service in services:
        await service.close()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--replicas", type=int, default=_BROKERS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder), is_synced=options.sync) as etcd:
        asyncio.run(_run(etcd, options.partitions, options.replicas))


if __name__ == "__main__":
    main()
