"""Measures what metadata cost in clusters of 10, 100 and 1,000 brokers, each with 100 leaderships and 300 replicas.

`python -m bench.metadata_scale`; with KLAMM_TEST_ETCD=current, a current etcd. One member, without syncs to the disk.
One service is real, and the other brokers are only registered: the figures are those of one broker, the controller.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

from tests.support.etcd_server import Etcd

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.entries import apply, live_key, partition_key, put_broker, put_live, put_partition
from klamm.metadata.etcd.etcd_store import EtcdStore
from klamm.metadata.metadata_store import Change, Versioned
from klamm.metadata.service import MetadataService, NewTopic
from klamm.protocol.types import BrokerId

__all__ = ["main"]

_LEADERSHIPS: Final = 100
_PARTITIONS_OF_TOPIC: Final = 100
_REPLICAS: Final = 3
_AT_ONCE: Final = 50
_ROUNDS: Final = 3
_CHANGES: Final = 200
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


async def _open(etcd: Etcd, broker_id: int) -> MetadataService:
    store = await EtcdStore.open(etcd.address("bench"), session_timeout_s=600)
    return await MetadataService.open(store, BrokerConfig(node_id=BrokerId(broker_id)))


async def _register_others(store: EtcdStore, brokers: int) -> None:
    """Makes brokers 2 to `brokers` live, in the session of one store."""
    ids = [BrokerId(number) for number in range(2, brokers + 1)]
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        registrations = [put_broker(each, {"PLAINTEXT": ("127.0.0.1", 9000 + each)}, None) for each in some]
        await store.transact({}, [*registrations, *(put_live(each, f"run-{each}") for each in some)])


async def _loads(etcd: Etcd, partitions: int) -> None:
    wall, processor, memory = [], [], []
    for _ in range(_ROUNDS):
        gc.collect()
        before, began, used = _resident_bytes(), perf_counter(), process_time()
        service = await _open(etcd, 9_999)
        wall.append(perf_counter() - began)
        processor.append(process_time() - used)
        memory.append(_resident_bytes() - before)
        assert sum(len(topic.partitions) for topic in service.image.topics.values()) >= partitions
        await service.close()
        del service
    print(
        f"  open a session and load: {median(wall):.2f} s, {median(processor):.2f} s of processor time; "
        f"{memory[0] / 1e6:.0f} MB"
    )


def _follow_changes(service: MetadataService) -> None:
    """Measures how long a broker takes to understand one change of another broker's partition."""
    image = service.image
    times = []
    topics = list(image.topics.values())
    for number in range(_CHANGES):
        topic = topics[number % len(topics)]
        partition = topic.partitions[number % len(topic.partitions)]
        change = put_partition(topic.topic_id, partition)
        assert change.value is not None
        revision = image.revision + 1
        began = process_time()
        image = apply(image, revision, {change.key: Versioned(change.value, 1, revision)})
        times.append(process_time() - began)
    print(f"  follow the change of one partition: {median(times) * 1000:.2f} ms of processor time")


async def _fail_a_broker(service: MetadataService, others: EtcdStore) -> None:
    """Ends a broker's session, and elects other leaders for its partitions as the controller does."""
    await others.transact({}, [Change(live_key(BrokerId(2)), None)])
    while BrokerId(2) in service.image.brokers:  # noqa: ASYNC110 - the watch changes it
        await asyncio.sleep(0.001)
    before, began, used = service.image.revision, perf_counter(), process_time()
    count = await service.replicas.keep_leaders()
    transactions = service.image.revision - before
    seconds, processor = perf_counter() - began, process_time() - used
    print(
        f"  a broker fails: {count} partitions change in {transactions} transactions and {seconds:.2f} s, "
        f"{processor:.2f} s of processor time"
    )


async def _run(etcd: Etcd, brokers: int) -> None:
    partitions = brokers * _LEADERSHIPS
    print(f"{brokers} brokers, {partitions} partitions, {partitions * _REPLICAS} replicas", flush=True)
    others = await EtcdStore.open(etcd.address("bench"), session_timeout_s=600)
    service = await _open(etcd, 1)
    await service.start_broker({"PLAINTEXT": ("127.0.0.1", 9001)})
    await _register_others(others, brokers)
    began = perf_counter()
    for number in range(partitions // _PARTITIONS_OF_TOPIC):
        topic = NewTopic(f"topic-{number}", partitions=_PARTITIONS_OF_TOPIC, replication_factor=_REPLICAS)
        await service.create_topics([topic])
    seconds = perf_counter() - began
    print(
        f"  create {_PARTITIONS_OF_TOPIC} partitions: {seconds * _PARTITIONS_OF_TOPIC / partitions:.3f} s", flush=True
    )
    sample = service.image.topics["topic-0"]
    size = sum(
        len(change.key) + len(change.value or b"")
        for change in (put_partition(sample.topic_id, each) for each in sample.partitions)
    )
    print(f"  etcd's keys and values: {size * partitions / len(sample.partitions) / 1e6:.1f} MB")
    assert partition_key(sample.topic_id, sample.partitions[0].index)
    await _loads(etcd, partitions)
    _follow_changes(service)
    await _fail_a_broker(service, others)
    await service.close()
    await others.close()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, nargs="*", default=[10, 100, 1000])
    for brokers in parser.parse_args().brokers:
        with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder)) as etcd:
            asyncio.run(_run(etcd, brokers))


if __name__ == "__main__":
    main()
