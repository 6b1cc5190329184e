"""Moves partitions from broker to broker while they are in use, as an administrator would.

A move has two steps. First the partition has no leader, under a new leader epoch. When the old leader has seen that and
has resigned, or when its process is dead, its log is copied to the new leader's disk. Then the new leader is written,
under one more epoch. So the new leader has all that the old one has acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from tests.simulation.clusters.disks import copy_folder

from klamm.broker.partitions.departed_logs import DepartedLogs
from klamm.metadata.entries import apply, put_partition
from klamm.metadata.image import EMPTY_IMAGE, NO_BROKER, MetadataImage, PartitionImage
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from klamm.storage.checkpoints import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_FILE
from klamm.storage.directory.log_opening import load_logs
from klamm.storage.log.log import Log
from klamm.storage.log.log_services import segment_settings
from klamm.storage.recovery.loaded_log import LoadRequest

if TYPE_CHECKING:
    from tests.simulation.brokers.machine import Machine
    from tests.simulation.clusters.world import ClusterWorld

__all__ = ["Moves"]


class _Move(NamedTuple):
    """A partition without a leader, on its way to another broker."""

    where: TopicPartition
    source: BrokerId
    target: BrokerId
    revision: int
    """The revision in which the old leader lost its partition."""


class Moves:
    """The moves of a world."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._moves: list[_Move] = []
        self._copied: dict[Log, LeaderEpoch] = {}
        """Logs that were copied to a running broker, and the leader epochs in which it leads them."""

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Keeps copied logs from deletion while the context is open, until their brokers know why they have them."""
        add = DepartedLogs.add

        def add_unless_copied(departed: DepartedLogs, log: Log, image: PartitionImage) -> None:
            if image.leader_epoch >= self._copied.get(log, 0):
                add(departed, log, image)

        with patch.object(DepartedLogs, "add", add_unless_copied):
            yield

    @property
    def is_idle(self) -> bool:
        """Whether no partition is on its way."""
        return not self._moves

    def begin(self) -> None:
        """Takes a partition from its leader. Any partition may move, of internal topics too."""
        world = self._world
        moving = {move.where for move in self._moves}
        partitions = [
            (topic.topic_id, TopicPartition(topic.name, partition.index), partition)
            for _, topic in sorted(self._image().topics.items())
            if topic.is_internal or topic.name in world.plan.topics
            for partition in topic.partitions
            if TopicPartition(topic.name, partition.index) not in moving
        ]
        if not partitions:
            return
        self._take(*world.loop.random.choice(partitions))

    def begin_with(self, where: TopicPartition) -> None:
        """Takes this partition from its leader, unless it is on its way already."""
        if any(move.where == where for move in self._moves):
            return
        topic = self._image().topics[where.topic]
        self._take(topic.topic_id, where, topic.partitions[where.partition])

    def _take(self, topic_id: TopicId, where: TopicPartition, partition: PartitionImage) -> None:
        world = self._world
        target = world.loop.random.choice(sorted(set(world.machines) - {partition.leader}))
        revision = self._write(topic_id, partition, NO_BROKER, partition.replicas)
        world.notes.add("%s has no leader, and goes from broker %d to %d", where, partition.leader, target)
        self._moves.append(_Move(where, partition.leader, target, revision))

    def go_on(self) -> None:
        """Completes the moves whose old leader has resigned or is dead."""
        for move in list(self._moves):
            if self._has_resigned(move) and self._can_take(move.target):
                self._moves.remove(move)
                self._complete(move)

    def _has_resigned(self, move: _Move) -> bool:
        machine = self._world.machines[move.source]
        if not machine.is_alive:
            return True
        context = None if machine.services is None else machine.services.context
        return context is not None and context.metadata.image.revision >= move.revision

    def _can_take(self, number: BrokerId) -> bool:
        machine = self._world.machines[number]
        return not machine.is_alive or (machine.is_serving and not self._world.is_stopping(number))

    def _complete(self, move: _Move) -> None:
        world, where = self._world, move.where
        source, target = world.machines[move.source], world.machines[move.target]
        topic = self._image().topics[where.topic]
        if source.is_alive:
            world.note_synced(source, where)
        if world.has_folder(source, where):
            self._copy(source, target, where, topic.topic_id)
            if (copied := target.logs.get(where)) is not None:
                self._copied[copied] = LeaderEpoch(topic.partitions[where.partition].leader_epoch + 1)
        self._write(topic.topic_id, topic.partitions[where.partition], move.target, (move.target,))
        world.life += 1
        world.notes.add("%s is led by broker %d", where, move.target)

    def _copy(self, source: Machine, target: Machine, where: TopicPartition, topic_id: TopicId) -> None:
        directory = target.services.log_directory if target.is_alive and target.services is not None else None
        if directory is None:
            if target.device.image is not None:
                target.device.begin_life()  # Writes what a power failure has left.
            # The new log was not closed, and the recovery point may be that of an earlier log of the partition.
            for name in (CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_FILE):
                if (target.device.path / name).exists():
                    target.device.drop(str(target.device.path / name))
        if directory is not None:
            directory.cleaner.abort(where)
            old = directory.logs.pop(where, None)
            if old is not None:
                old.leave(old.directory, "is replaced")
        copy_folder(str(where), source.device, target.device)
        if directory is None:
            return
        loop = target.loop
        assert loop is not None
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(loop)  # type: ignore[arg-type]
        folder = directory.path / str(where)
        config = target.services.dynamic_config.topic_config_of(None)  # type: ignore[union-attr]
        request = LoadRequest(
            folder,
            where,
            segment_settings(config, directory._services),
            Offset(0),
            None,
            had_clean_shutdown=False,
            has_gaps=where.topic.startswith("__"),
            producer_id_expiration_ms=directory._services.producer_id_expiration_ms,
            now_ms=target.now_ms(),
        )
        with target.device.passing():
            (loaded,) = load_logs([request], directory.path, threads=1)
            directory.logs[where] = Log(
                where, topic_id, config, directory._services, loaded, now_ms=target.now_ms(), has_new_names=True
            )
        target.device.adopt(str(folder))
        asyncio._set_running_loop(before)

    # The store

    def _image(self) -> MetadataImage:
        return apply(EMPTY_IMAGE, self._world.metadata.revision, self._world.metadata.entries)

    def _write(
        self, topic_id: TopicId, partition: PartitionImage, leader: BrokerId, replicas: tuple[BrokerId, ...]
    ) -> int:
        epoch = LeaderEpoch(partition.leader_epoch + 1)
        changed = replace(partition, leader=leader, leader_epoch=epoch, replicas=replicas, isr=replicas)
        return self._world.metadata.write([put_partition(topic_id, changed)])
