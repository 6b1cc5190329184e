"""Faults that strike at the moments at which replication may lose records: when a leader proposes in-sync replicas,
when a replica joins them, when a leader begins or commits, when a replica is removed and added again, and when
`min.insync.replicas` is lowered.

Faults at random moments rarely meet such a moment, because it lasts for some milliseconds. So an ambush waits for it in
the metadata store. Then it cuts the followers concerned off from the leader, and kills the leader a little later: the
next leader has exactly what it held at that moment.

A kill takes no record away. But a replica that loses unsynced records in a power failure counts as in sync until its
session has ended. If the leader is killed before that, the replica may be elected. So where a majority of replicas must
remain, no leader is killed until a broker that has lost power serves again.

A blackout is different: all brokers end at the same moment. Some lose their power, fewer than `min.insync.replicas`.
The others were only killed, so they still have what they wrote. One of these must lead, whichever broker comes back
first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.clusters.metadata_rules import changed_partitions
from tests.simulation.logs.device import Strike

from klamm.metadata.entries import apply
from klamm.metadata.image import NO_BROKER, MetadataImage, PartitionImage
from klamm.metadata.metadata_store import Change, Versioned
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.asyncio_loop import ProcessLoop
    from tests.simulation.clusters.metadata_store import Session
    from tests.simulation.clusters.replicated import ReplicaWorld

__all__ = ["Ambushes", "changed_by", "joining_in"]

_MOST: Final = 4
"""Number of ambushes in a world, in addition to those at proposals and at commits, which are as many."""
_PROPOSAL_CHANCE: Final = 0.8
_COMMIT_CHANCE: Final = 0.1
_MOST_BLACKOUTS: Final = 2
_JOIN_CHANCE: Final = 0.4
_LEADER_CHANCE: Final = 0.3
_LOWER_CHANCE: Final = 0.3
_RETURN_CHANCE: Final = 0.3
_RESTART_CHANCE: Final = 0.15
_BLACKOUT_CHANCE: Final = 0.2
_BACK_MS: Final = 5.0
_LATER_MS: Final = 300.0
_KILL_AFTER_MS: Final = (5, 30, 100)
_LATE_MS: Final = (30, 100, 300)
"""How late a proposal arrives, or how late the leader learns its outcome."""
_NEXT_RUN_MS: Final = 600.0
"""How long a proposal waits for the next run of the replica that is to join."""
_CUT_OFF_MS: Final = (300, 700)
_MARGIN_MS: Final = 60
"""From the time at which followers lag to their removal from the in-sync replicas."""


class Ambushes:
    """The ambushes of a world."""

    def __init__(self, world: ReplicaWorld) -> None:
        self._world = world
        self._left = self._proposals_left = self._commits_left = _MOST
        self._blackouts_left = _MOST_BLACKOUTS
        self._is_busy = False
        self._back: BrokerId | None = None
        """The broker that comes back at once after a failure."""
        self._holds_until_ms = self._reserved_until_ms = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a leader is about to be killed."""
        return self._is_busy

    @property
    def is_under_way(self) -> bool:
        """Whether an ambush waits for a broker. No other faults strike then."""
        return self._is_busy or self._world.loop.now_ms < max(self._holds_until_ms, self._reserved_until_ms)

    def hold(self, duration_ms: float) -> None:
        """Lets no other fault strike for some time, and no ambush begin."""
        self._reserved_until_ms = self._world.loop.now_ms + duration_ms

    def written(self, before: MetadataImage, after: MetadataImage) -> None:
        """Looks at a commit of the metadata store."""
        for where, old, new in changed_partitions(before, after):
            if old is None or where not in self._world.model.partitions or new.leader == NO_BROKER:
                continue
            joined = set(new.isr) - set(old.isr)
            if new.leader_epoch != old.leader_epoch:
                self._consider(where, new, set(new.isr) - {new.leader}, _LEADER_CHANCE)
            elif joined:
                self._consider(where, new, joined, 1.0 if self._back in joined else _JOIN_CHANCE)

    def _consider(self, where: TopicPartition, partition: PartitionImage, cut: set[BrokerId], chance: float) -> None:
        world = self._world
        if not cut or not self._may_begin(partition.leader) or not world.loop.chance(chance):
            return
        self._begin(partition.leader, cut)
        world.notes.add("the leader of %s, broker %d, is ambushed", str(where), partition.leader)
        world.notes.add("brokers %s do not reach broker %d", sorted(cut), partition.leader)
        if world.loop.chance(0.5):
            world.break_watch(partition.leader, 150)
        self._kill_later(partition.leader, world.loop.random.choice(_KILL_AFTER_MS))

    # A proposal on its way

    def sent(self, session: Session, changes: Sequence[Change]) -> Callable[[], bool] | None:
        """Looks at a transaction that a broker sends, and returns a function that tells whether it may arrive.

        A proposal that adds replicas may arrive late, while the leader is killed or a replica starts again. Or the
        leader may learn its outcome late, while the replicas that have joined get no records.
        """
        found = joining_in(self._world.checks.image, changes)
        if found is None:
            return None
        where, leader, joining = found
        world = self._world
        if session.name != f"broker {leader}" or not self._proposals_left or not self.is_calm(leader):
            return None
        if not world.loop.chance(1.0 if self._back in joining else _PROPOSAL_CHANCE):
            return None
        late_ms = world.loop.random.choice(_LATE_MS)
        self._proposals_left -= 1
        world.notes.add("broker %d proposes %s for %s, and is ambushed", leader, sorted(joining), str(where))
        draw = world.loop.random.random()
        number = min(joining)
        if draw < 0.55 and world.may_take_power_of(number):
            # Its next run is live when the proposal arrives.
            loop = world.machines[number].loop
            self._holds_until_ms = world.loop.now_ms + _NEXT_RUN_MS
            world.loop.call_later(0, partial(self._take_power_of, number))
            return partial(self._serves_again, number, loop)
        self._is_busy = True
        if draw < 0.7:
            self._kill_later(leader, late_ms * world.loop.random.random())
            arrives_ms = world.loop.now_ms + late_ms
            return lambda: world.loop.now_ms >= arrives_ms
        self._cut(leader, joining)
        world.break_watch(leader, late_ms)
        self._kill_later(leader, late_ms)
        return None

    def _serves_again(self, number: BrokerId, earlier: ProcessLoop | None) -> bool:
        machine = self._world.machines[number]
        is_back = machine.is_serving and machine.loop is not earlier
        if is_back or not self.is_under_way:
            self._holds_until_ms = min(self._holds_until_ms, self._world.loop.now_ms + _MARGIN_MS)
            return True
        return False

    def _take_power_of(self, number: BrokerId) -> None:
        if self._world.machines[number].is_alive and not self._world.has_lone_replicas:
            self._world.die(number, Strike.POWER)
            self._world.come_back(number, _BACK_MS)

    # Other moments

    def committed(self, leader: BrokerId) -> None:
        """Kills a leader that has just committed records: its followers have not heard of that. Or cuts it off from the
        metadata store, while its followers and clients reach it."""
        world = self._world
        if self._commits_left and self.is_calm(leader) and world.loop.chance(_COMMIT_CHANCE):
            self._commits_left -= 1
            world.notes.add("broker %d has committed records, and is ambushed", leader)
            if world.loop.chance(0.5):
                world.cut_off(leader, world.loop.random.choice(_CUT_OFF_MS))
            else:
                self._is_busy = True
                self._kill_later(leader, 0)

    def lower(self) -> None:
        """Cuts a leader off from its followers until they leave the in-sync replicas, lets the administrator lower
        `min.insync.replicas`, and kills the leader."""
        world = self._world
        where = world.loop.random.choice(world.partitions)
        partition = self._partition(where)
        if partition is None or not self._may_begin(partition.leader) or not world.loop.chance(_LOWER_CHANCE):
            return
        administrator = world.administrator
        assert administrator is not None
        self._begin(partition.leader, set(partition.isr) - {partition.leader})
        world.notes.add("broker %d is to lead %s alone", partition.leader, str(where))
        alone_ms = world.max_lag_ms + _MARGIN_MS
        world.loop.call_later(alone_ms, partial(administrator.lowered.append, where.topic))
        self._kill_later(partition.leader, alone_ms + world.loop.random.choice((100, 200, 300)))

    def return_replica(self) -> None:
        """Lets the administrator remove a replica and add it again, while the leader hears nothing. The replica has an
        empty log then, and the leader remembers a full one."""
        world = self._world
        where = world.loop.random.choice(world.partitions)
        partition = self._partition(where)
        if partition is None or not self._may_begin(partition.leader) or not world.loop.chance(_RETURN_CHANCE):
            return
        others = [each for each in partition.isr if each != partition.leader]
        administrator = world.administrator
        if not others or administrator is None:
            return
        self._left -= 1
        number = world.loop.random.choice(others)
        world.notes.add("broker %d is to lose its replica of %s for a moment", number, str(where))
        world.break_watch(partition.leader, 400)
        without = [each for each in partition.replicas if each != number]
        administrator.assigned += [(where, without), (where, list(partition.replicas))]

    def restart_one(self) -> None:
        """Lets a broker fail that comes back at once: a leader may still remember what the broker held. When it joins
        the in-sync replicas again, it is ambushed."""
        world = self._world
        if self.is_under_way or not world.loop.chance(_RESTART_CHANCE):
            return
        serving = [number for number, machine in world.machines.items() if machine.is_serving]
        strike = world.some_strike()
        if serving and strike is not None:
            self._back = world.loop.random.choice(serving)
            world.die(self._back, strike)
            world.come_back(self._back, _BACK_MS)

    def _partition(self, where: TopicPartition) -> PartitionImage | None:
        topic = self._world.checks.image.topics.get(where.topic)
        return None if topic is None else topic.partitions[where.partition]

    def black_out(self, most_dark: int) -> None:
        """Ends all brokers. At most `most_dark` of them lose their power, the others are killed."""
        world, draw = self._world, self._world.loop.random
        if self.is_under_way or not self._blackouts_left or not world.loop.chance(_BLACKOUT_CHANCE):
            return
        self._blackouts_left -= 1
        numbers = list(world.machines)
        dark = draw.sample(numbers, draw.choice((0, most_dark, most_dark)))
        world.notes.add("all brokers end, and brokers %s lose power", sorted(dark))
        for number in numbers:
            world.die(number, Strike.POWER if number in dark else Strike.KILL)
        if world.loop.chance(0.7):
            # The sessions end at once, and the brokers that lack records are back first.
            for number in numbers:
                world.come_back(number, draw.random() * (_BACK_MS if number in dark else _LATER_MS))

    def _may_begin(self, leader: BrokerId) -> bool:
        return self._left > 0 and self.is_calm(leader)

    def is_calm(self, leader: BrokerId) -> bool:
        """Returns whether a leader may be killed soon."""
        world = self._world
        if self._is_busy or world.loop.now_ms < self._reserved_until_ms:
            return False
        if world.has_healed or leader == NO_BROKER or world.lacks_power:
            return False
        return world.machines[leader].is_serving and not world.is_stopping(leader)

    def _begin(self, leader: BrokerId, cut: Collection[BrokerId]) -> None:
        self._left -= 1
        self._is_busy = True
        self._cut(leader, cut)

    def _cut(self, leader: BrokerId, cut: Collection[BrokerId]) -> None:
        world = self._world
        for number in sorted(cut):
            loop = world.machines[number].loop
            if loop is not None:
                # The commit is still being written.
                world.loop.call_later(0, partial(world.network.cut, loop, world.machines[leader].address))

    def _kill_later(self, leader: BrokerId, after_ms: float) -> None:
        self._world.loop.call_later(after_ms, partial(self._kill, leader, self._world.machines[leader].loop))

    def _kill(self, leader: BrokerId, loop: ProcessLoop | None) -> None:
        world = self._world
        machine = world.machines[leader]
        if machine.is_alive and machine.loop is loop and not world.has_healed:
            world.die(leader, Strike.KILL)
        self._is_busy = False
        for cut in [each for each in world.network.cuts if each[1] == machine.address]:
            world.network.cuts.discard(cut)


def changed_by(
    image: MetadataImage, changes: Sequence[Change]
) -> Iterator[tuple[TopicPartition, PartitionImage, PartitionImage]]:
    """Yields the partitions that a transaction changes, with their state before and after. `image` is the newest."""
    entries = {
        change.key: Versioned(change.value, 0, 0)
        for change in changes
        if change.value is not None and change.key.startswith("partitions/")
    }
    if entries:
        for where, old, new in changed_partitions(image, apply(image, image.revision, entries)):
            if old is not None:
                yield where, old, new


def joining_in(
    image: MetadataImage, changes: Sequence[Change]
) -> tuple[TopicPartition, BrokerId, frozenset[BrokerId]] | None:
    """Returns a partition, the leader and the added replicas of a proposal; None for another transaction."""
    for where, old, new in changed_by(image, changes):
        joining = frozenset(new.isr) - set(old.isr)
        if old.leader == new.leader and joining:
            return where, old.leader, joining
    return None
