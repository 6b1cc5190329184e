"""Spreads the partitions of all topics over another number of workers, with few moves.

Each topic is spread evenly, and so are all partitions together: of two workers, one leads at most one partition more.
A partition stays where it is if its worker has room for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from klamm.errors import KlammError
from klamm.metadata.entries import broker_key, put_partition
from klamm.metadata.image import NO_BROKER, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Change, Plan
from klamm.protocol.internal_topic_names import HISTORY_TOPIC, OFFSETS_TOPIC
from klamm.protocol.types import BrokerId, LeaderEpoch, TopicPartition

__all__ = ["Homes", "plan_spread"]

_NAMES_TOLD: Final = 5
"""How many topics a message names."""

Homes = Mapping[TopicPartition, BrokerId]
"""The worker of each partition."""


def plan_spread(image: MetadataImage, workers: Sequence[BrokerId]) -> Plan[Homes]:
    """Plans the homes of all partitions on `workers`. They stay the same while the registered brokers are these.

    A start with more workers that was interrupted may have left partitions to workers that never ran.

    The plan also removes the registrations of other brokers. A partition that moves gets a higher leader epoch, because
    its new leader is another broker.

    Raises KlammError for another set of workers if any partition has several replicas: they would name workers that
    are gone, and only brokers that run can decide which of the replicas has all records.
    """
    present = _present_homes(image)
    replicated = [topic.name for topic in image.topics.values() if any(map(_is_replicated, topic.partitions))]
    if replicated:
        _refuse_other_workers(image, workers, sorted(replicated))
        return Plan(present)
    if set(image.registrations) == set(workers) and set(present.values()) <= {NO_BROKER, *workers}:
        return Plan(present)
    homes = _spread(image, workers)
    changes = [Change(broker_key(broker), None) for broker in image.registrations if broker not in workers]
    for topic in image.topics.values():
        for partition in topic.partitions:
            home = homes[TopicPartition(topic.name, partition.index)]
            if home == partition.leader:
                continue
            epoch = LeaderEpoch(partition.leader_epoch + 1)
            moved = replace(partition, leader=home, leader_epoch=epoch, replicas=(home,), isr=(home,))
            changes.append(put_partition(topic.topic_id, moved))
    return Plan(homes, changes)


def _is_replicated(partition: PartitionImage) -> bool:
    return len(partition.replicas) > 1


def _refuse_other_workers(image: MetadataImage, workers: Sequence[BrokerId], replicated: Sequence[str]) -> None:
    # The replicas count, too: a worker that was unregistered just before the stop is still one of the workers.
    replicas = {
        each for topic in image.topics.values() for partition in topic.partitions for each in partition.replicas
    }
    before = max({*image.registrations, *replicas})
    if max(workers) == before:
        return
    names = " ".join(replicated[:_NAMES_TOLD]) + (" ..." if len(replicated) > _NAMES_TOLD else "")
    raise KlammError(
        f"{len(replicated)} topic(s) have partitions with several replicas, which can't be moved to another number of "
        f"workers. Nothing was changed: start with --workers {before} as before. To change the number, leave each "
        f"partition one replica with `klamm cluster reassign --replication-factor 1 {names}`, and stop them again"
    )


def _present_homes(image: MetadataImage) -> Homes:
    return {
        TopicPartition(topic.name, partition.index): partition.leader
        for topic in image.topics.values()
        for partition in topic.partitions
    }


def _spread(image: MetadataImage, workers: Sequence[BrokerId]) -> Homes:
    totals: Counter[BrokerId] = Counter()
    homes: dict[TopicPartition, BrokerId] = {}
    for name in sorted(image.topics):
        if name != HISTORY_TOPIC or OFFSETS_TOPIC not in image.topics:
            homes |= _spread_topic(image.topics[name], workers, totals)
    if HISTORY_TOPIC in image.topics and OFFSETS_TOPIC in image.topics:
        homes |= _next_to_the_offsets(image, homes)
    return homes


def _spread_topic(topic: TopicImage, workers: Sequence[BrokerId], totals: Counter[BrokerId]) -> Homes:
    held = Counter(partition.leader for partition in topic.partitions)
    share, more = divmod(len(topic.partitions), len(workers))
    # The workers with the fewest partitions get one more. If several have equally few, those that have it already.
    by_room = sorted(workers, key=lambda worker: (totals[worker], -held[worker], worker))
    rooms = {worker: share + (position < more) for position, worker in enumerate(by_room)}
    totals.update(rooms)
    homes: dict[TopicPartition, BrokerId] = {}
    moving = []
    for partition in topic.partitions:
        if rooms.get(partition.leader):
            rooms[partition.leader] -= 1
            homes[TopicPartition(topic.name, partition.index)] = partition.leader
        else:
            moving.append(TopicPartition(topic.name, partition.index))
    free = [worker for worker in by_room for _ in range(rooms[worker])]
    return homes | dict(zip(moving, free, strict=True))


def _next_to_the_offsets(image: MetadataImage, homes: Homes) -> Homes:
    """Returns the homes of the groups' histories: the worker that coordinates a group writes its history."""
    count = len(image.topics[OFFSETS_TOPIC].partitions)
    return {
        TopicPartition(HISTORY_TOPIC, partition.index): homes[
            TopicPartition(OFFSETS_TOPIC, type(partition.index)(partition.index % count))
        ]
        for partition in image.topics[HISTORY_TOPIC].partitions
    }
