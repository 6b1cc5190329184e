"""Faults of single disks in worlds of replicas: a sync of a log fails, all writes fail, the disk is full, or the folder
of one partition is gone when its broker starts again.

The disk of one broker fails at a time, and only while the replicas of all other brokers are in sync. The fault is over
when all brokers serve, no log is offline, and all replicas are in sync again. A log that is offline stays so until its
broker starts again, so the world restarts the broker: some time later, or at its end.

Random faults rarely meet the moments at which a failed log matters to others. So in some of these worlds, a proposal
that adds a replica waits on its way to the metadata store until the log of the replica has failed. And the log of a
leader fails while its followers lack records. Then the transaction with which the leader gives up its place arrives
late, so that the leader sees its followers lag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from tests.simulation.clusters.ambushes import changed_by, joining_in
from tests.simulation.logs.device import Strike
from tests.simulation.violation import Violation

from klamm.metadata.image import NO_BROKER, PartitionImage
from klamm.metadata.metadata_store import Change
from klamm.protocol.types import BrokerId, TopicId, TopicPartition
from klamm.storage.checkpoints import RECOVERY_POINT_FILE, REPLICATION_OFFSET_FILE, read_offsets
from klamm.storage.directory.log_directory import LogDirectory

if TYPE_CHECKING:
    from tests.simulation.clusters.metadata_store import Session
    from tests.simulation.clusters.replicated import ReplicaWorld

__all__ = ["DiskFaults"]

_CHANCE: Final = 0.6
_JOIN_CHANCE: Final = 0.4
_LEADER_CHANCE: Final = 0.4
_MOST_JOINS: Final = 2
"""Number of logs that fail while their replicas join."""
_JOINS_AFTER_MS: Final = 40
"""How long a proposal waits until the log of the replica that is to join has failed."""
_UNREACHED_MS: Final = 40
"""How long the followers do not reach a leader before its log fails. They do not lag yet."""
_LONGEST_LAG_MS: Final = 500
"""The longest time after which followers lag for which a transaction waits."""
_FEW_BYTES: Final = (0, 100, 2_000)
_LASTS_MS: Final = (30, 150, 500)
"""How long a disk is full or refuses writes, and after which time a broker with a log that is offline starts again."""
_STAYS_CHANCE: Final = 0.5
"""Probability that a log stays offline until the end of the world."""
_GIVE_UP_MS: Final = 2_500
"""Without other faults, the longest time in which a broker gives up the places of a log: a failed attempt may be
repeated after a second."""


class _LostFolder(NamedTuple):
    """The folder of a partition that is gone."""

    where: TopicPartition
    is_synced: bool
    """Whether a recovery point names synced records of it."""
    boots: int
    """How often the power had failed before."""


class DiskFaults:
    """The faults of the disks in a world."""

    def __init__(self, world: ReplicaWorld, draw: Random) -> None:
        """Creates the faults. They have a random source of their own, so that worlds without them do not change."""
        self._world = world
        self._draw = draw
        self._number: BrokerId | None = None
        """The broker whose disk fails, from the beginning of the fault until all is in order again."""
        self._until_ms = 0.0
        self._is_about_to_fail = False
        """Whether the sync that is to fail has not run yet."""
        self._loses_folder = False
        self._lost: dict[BrokerId, _LostFolder] = {}
        """The last folder that each broker has lost, until a start has noticed it."""
        self._joins_left = _MOST_JOINS

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watches which lost folders the starts of brokers find, while the context is open."""
        find = LogDirectory.find_lost

        def watched(
            directory: LogDirectory, partitions: Mapping[TopicPartition, TopicId], *arguments: Any
        ) -> list[TopicPartition]:
            found = find(directory, partitions, *arguments)
            for number, machine in self._world.machines.items():
                lost = self._lost.pop(number, None) if machine.device.path == directory.path else None
                if lost is None or lost.where not in partitions or lost.where in found:
                    continue
                # After a power failure, a high watermark is no proof.
                if lost.is_synced or lost.boots == machine.device.boots:
                    what = f"broker {number} does not notice that the folder of {lost.where} is gone"
                    self._world.fail(Violation(8, what))
            return found

        with patch.object(LogDirectory, "find_lost", watched):
            yield

    @property
    def is_under_way(self) -> bool:
        """Whether a broker may lack records because of its disk, or can't use one of its logs."""
        return self._number is not None

    def look(self) -> None:
        """Ends a fault that is over, and restarts a broker with a log that stays offline. Checks that no other log is
        offline (I8)."""
        for other in self._world.machines:
            offline = self._offline_logs(other)
            if offline and other != self._number:
                log = self._world.machines[other].logs[offline[0]]
                raise Violation(8, f"broker {other} has taken {offline[0]} offline: {log.offline_reason}")
        number = self._number
        if number is None:
            return
        if self._world.loop.now_ms >= self._until_ms:
            self._repair(number)
            if self._offline_logs(number) and not self._world.is_stopping(number):
                self._restart(number)
        if self._is_over(number):
            self._world.notes.add("the disk of broker %d is in order", number)
            self._number = None

    def _is_over(self, number: BrokerId) -> bool:
        world, device = self._world, self._world.machines[number].device
        is_pending = self._is_about_to_fail or self._loses_folder
        is_intact = device.free_bytes is None and not device.error_rate and not is_pending
        return is_intact and world.is_in_order() and not self._offline_logs(number)

    def _offline_logs(self, number: BrokerId) -> list[TopicPartition]:
        """Returns the logs that a broker can't use now. While it starts, it may not have replaced a lost one yet."""
        machine = self._world.machines[number]
        return [where for where, log in machine.logs.items() if log.is_offline] if machine.is_serving else []

    # The faults

    def strike(self) -> None:
        """Lets one of the faults occur, or none."""
        world, draw = self._world, self._draw
        if self._number is not None or draw.random() >= _CHANCE:
            return
        numbers = [number for number in world.machines if self._may_fail(number)]
        if numbers:
            others = (self._fail_log, self._fill, self._refuse_writes, self._lose_folder)
            if draw.random() < _LEADER_CHANCE:
                self._fail_leader()
            else:
                draw.choice(others)(draw.choice(numbers))

    def _may_fail(self, number: BrokerId) -> bool:
        if number == NO_BROKER or not self._world.machines[number].is_serving:
            return False
        return self._number in (None, number) and self._world.may_lose_disk(number)

    def _begin(self, number: BrokerId, template: str, *values: object) -> None:
        world = self._world
        self._number = number
        self._until_ms = world.loop.now_ms + self._draw.choice(_LASTS_MS)
        world.notes.add(template, *values)
        if not world.is_unlimited:
            world.disarm()

    def _fail_log(self, number: BrokerId) -> None:
        wheres = [where for where in self._world.machines[number].logs if self._is_replicated(where)]
        if wheres:
            self._fail_sync(number, self._draw.choice(sorted(wheres)))

    def _fail_leader(self) -> None:
        """Lets the log of a leader fail after its followers have not reached it for a moment."""
        world = self._world
        wheres = [where for where in world.partitions if self._may_fail(self._partition(where).leader)]
        if not wheres:
            return
        where = self._draw.choice(wheres)
        number = self._partition(where).leader
        machine = world.machines[number]
        followers = [world.machines[each].loop for each in self._partition(where).isr if each != number]
        self._begin(number, "the followers of %s do not reach broker %d", str(where), number)
        cuts = [(loop, machine.address) for loop in followers if loop is not None]
        for loop, address in cuts:
            world.network.cut(loop, address)
        self._is_about_to_fail, process = True, machine.loop

        def fail() -> None:
            world.network.cuts.difference_update(cuts)
            self._is_about_to_fail = False
            is_same = machine.loop is process and machine.is_serving and self._number == number
            if is_same and where in machine.logs and not world.has_healed:
                self._fail_sync(number, where)

        world.loop.call_later(_UNREACHED_MS, fail)

    def _partition(self, where: TopicPartition) -> PartitionImage:
        return self._world.checks.image.topics[where.topic].partitions[where.partition]

    def _is_replicated(self, where: TopicPartition) -> bool:
        topic = self._world.checks.image.topics.get(where.topic)
        return topic is not None and len(topic.partitions[where.partition].replicas) > 1

    def _fail_sync(self, number: BrokerId, where: TopicPartition) -> None:
        """Lets a sync of one log fail, as the kernel reports pages that it could not write."""
        machine = self._world.machines[number]
        log, device = machine.logs[where], machine.device
        flush = log.durability.begin_flush(machine.now_ms())
        if flush is None:
            self._is_about_to_fail = False
            return
        self._begin(number, "broker %d is about to lose the log of %s", number, str(where))
        if self._draw.random() < _STAYS_CHANCE:
            self._until_ms = float("inf")

        def fail() -> None:
            device.failing_syncs = 0 if self._world.has_healed else 1
            flush.run()
            device.failing_syncs = 0
            self._is_about_to_fail = False

        self._is_about_to_fail = True
        log._services.run_in_background(fail)

    def _fill(self, number: BrokerId) -> None:
        self._begin(number, "the disk of broker %d is almost full", number)
        self._world.machines[number].device.free_bytes = self._draw.choice(_FEW_BYTES)

    def _refuse_writes(self, number: BrokerId) -> None:
        self._begin(number, "the disk of broker %d refuses writes", number)
        self._world.machines[number].device.error_rate = 1.0

    def _lose_folder(self, number: BrokerId) -> None:
        self._begin(number, "broker %d is to lose a folder while it is away", number)
        self._loses_folder = True
        self._end_process(number)

    def _restart(self, number: BrokerId) -> None:
        self._world.notes.add("broker %d starts again to use its logs", number)
        self._end_process(number)

    def _end_process(self, number: BrokerId) -> None:
        if self._draw.random() < 0.5:
            self._world.stop(number)
        else:
            self._world.die(number, Strike.KILL)

    def _repair(self, number: BrokerId) -> None:
        device = self._world.machines[number].device
        device.free_bytes = None
        device.error_rate = 0.0

    def ended(self, number: BrokerId) -> None:
        """Repairs the disk of a broker whose process has ended, because it does not start otherwise. Removes a folder,
        if this broker is to lose one."""
        if number != self._number:
            return
        self._repair(number)
        self._is_about_to_fail = False
        if self._loses_folder:
            self._loses_folder = False
            self._remove_folder(number)

    def _remove_folder(self, number: BrokerId) -> None:
        """Removes the folder of a partition. A checkpoint must name synced records or, because the page cache is left,
        committed ones: without that, a broker can't tell a lost log from one that it has not made yet.

        A process whose write or sync has failed has removed its mark. The next start can't tell that from a power
        failure, so committed records are no proof then.
        """
        device = self._world.machines[number].device
        if device.image is not None:
            return  # The power has failed, so that the disk is written at the next start.
        points = read_offsets(device.path / RECOVERY_POINT_FILE)
        marks = {} if device.has_failed else read_offsets(device.path / REPLICATION_OFFSET_FILE)
        folders = [
            where
            for where in sorted(points.keys() | marks.keys())
            if (points.get(where) or marks.get(where)) and self._is_replicated(where) and self._has(number, where)
        ]
        if folders:
            where = self._draw.choice([where for where in folders if not points.get(where)] or folders)
            synced = "" if points.get(where) else ", of which nothing was synced"
            self._world.notes.add("broker %d has lost the folder of %s%s", number, str(where), synced)
            device.drop(str(device.path / str(where)))
            self._lost[number] = _LostFolder(where, bool(points.get(where)), device.boots)

    def _has(self, number: BrokerId, where: TopicPartition) -> bool:
        return self._world.has_folder(self._world.machines[number], where)

    # A proposal on its way

    def sent(self, session: Session, changes: Sequence[Change]) -> Callable[[], bool] | None:
        """Looks at a transaction that a broker sends. If it adds a replica to the in-sync replicas, the log of this
        replica may fail before the transaction arrives. See `Ambushes.sent`."""
        if session.name == f"broker {self._number}" and self._world.max_lag_ms <= _LONGEST_LAG_MS:
            for where, old, new in changed_by(self._world.checks.image, changes):
                log = self._world.machines[old.leader].logs.get(where) if old.leader == self._number else None
                if log is not None and log.is_offline and new.leader != old.leader:
                    due_ms = self._world.loop.now_ms + 2 * self._world.max_lag_ms
                    return lambda: self._world.loop.now_ms >= due_ms
        found = joining_in(self._world.checks.image, changes)
        if found is None or not self._joins_left:
            return None
        where, leader, joining = found
        number = min(joining)
        if session.name != f"broker {leader}" or len(joining) > 1 or self._draw.random() >= _JOIN_CHANCE:
            return None
        log = self._world.machines[number].logs.get(where)
        if log is None or log.is_offline or not self._may_fail(number):
            return None
        self._joins_left -= 1
        self._fail_sync(number, where)
        self._until_ms = float("inf")
        arrives_ms = self._world.loop.now_ms + _JOINS_AFTER_MS
        return lambda: self._world.loop.now_ms >= arrives_ms

    # The end

    def heal(self) -> None:
        """Ends all faults of disks. Logs that are offline stay so."""
        self._joins_left = 0
        self._until_ms = float("inf")
        if self._number is not None:
            self._repair(self._number)

    def has_given_up(self) -> bool:
        """Returns whether no broker has a place in a partition whose log it can't use, if another replica may lead."""
        return not any(True for _ in self._kept_places())

    def check_given_up(self, run: Callable[[float, Callable[[], bool]], bool]) -> None:
        """Checks that brokers give up the places of logs that are offline, once there are no other faults (I8).
        `run` lets time pass until its condition is true."""
        if not run(_GIVE_UP_MS, self.has_given_up):
            number, where = next(self._kept_places())
            raise Violation(8, f"the log of {where} on broker {number} is offline, and the replica may be elected")

    def _kept_places(self) -> Iterator[tuple[BrokerId, TopicPartition]]:
        world = self._world
        for number in world.machines:
            if not world.has_session(number) or world.is_stopping(number):
                continue
            for where in self._offline_logs(number):
                topic = world.checks.image.topics.get(where.topic)
                if topic is None:
                    continue
                partition = topic.partitions[where.partition]
                has_others = {*partition.isr, *partition.elr} - {number, NO_BROKER}
                if has_others and number in (partition.leader, *partition.isr, *partition.elr):
                    yield number, where

    def restart(self) -> None:
        """Restarts the broker whose logs are offline at the end of the world."""
        number = self._number
        if number is not None and self._offline_logs(number) and not self._world.is_stopping(number):
            self._restart(number)
