"""A client that looks up the ends of partitions, offsets by time, and the ends of leader epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.simulation.brokers.clients.base import PASSING, Participant
from tests.simulation.brokers.clients.client import Leader
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.client.errors import ConnectionFailed, RequestRefused
from klamm.client.list_offsets import EARLIEST, LATEST, ListedOffset, listing_offsets
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.protocol.schema.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from klamm.protocol.types import BrokerId, Millis, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import OutdatedLeader

__all__ = ["Lookups"]

_MAX_TIMESTAMP = Millis(-3)


class Lookups(Participant):
    """A client that checks each answer against what is known of the partition.

    A leader that has not heard of its successor knows less than some clients: the records below its own high watermark,
    and the leader epochs up to its own. Apache Kafka's leader answers then, too. So its answer is checked against what
    it knew when the request was sent. Any other leader must know all that a client was told before: it does not answer
    earlier (KIP-207).
    """

    is_reader = True

    async def live(self) -> None:
        world, random = self.world, self.random
        await self.client.run(self.client.refreshing(world.plan.topics))
        while not world.is_quiet:
            await world.think()
            where = random.choice(world.partitions)
            try:
                if random.random() < 0.7:
                    await self._look_up(where)
                else:
                    await self._look_up_epoch(where)
            except (ConnectionFailed, RequestRefused) as error:
                self.client.forget(Leader(where))
                await self.rest(error)
        for where in world.partitions:
            for is_committed in (False, True):
                await self._see_the_end(where, is_committed=is_committed)
        self.is_finished = True

    async def _look_up(self, where: TopicPartition) -> None:
        partition = self.world.model.partitions[where]
        draw = self.random.random()
        if draw < 0.4:
            await self._look_up_end(where, is_committed=draw < 0.2)
            return
        if draw < 0.5:
            found = await self._ask(where, EARLIEST)
            if found is not None and found.offset > partition.deleted:
                raise Violation(4, f"{where} begins at {found.offset}, and is deleted up to {partition.deleted}")
            return
        times = partition.times()
        if not times:
            return
        if draw < 0.6:
            found = await self._ask(where, _MAX_TIMESTAMP)
            if found is not None:
                partition.check_latest_time(str(where), found.offset, found.timestamp_ms)
            return
        time_ms = Millis(self.random.choice(times) + self.random.choice((-1, 0, 1)))
        await self._look_up_time(where, time_ms)

    async def _look_up_time(self, where: TopicPartition, time_ms: Millis) -> None:
        partition = self.world.model.partitions[where]
        before = partition.first_at(time_ms)
        outdated = self.world.outdated_leaders(where)
        found = await self._ask(where, time_ms)
        self.note("finds %s at or after %d in %s", found, time_ms, where)
        if found is None or self._life != self.world.life:
            return
        leader = self._answered_by(where, outdated)
        if leader is not None and before is not None and before >= leader.high_watermark:
            before = None
        partition.check_time(str(where), time_ms, found.offset, found.timestamp_ms, before)

    def _answered_by(self, where: TopicPartition, outdated: Mapping[BrokerId, OutdatedLeader]) -> OutdatedLeader | None:
        """Returns the outdated leader that has answered the last request; None if another broker has.

        A client that knows no leader of a partition asks another broker of the topic: this may be any of them.
        """
        asked = self.client.leader_of(where)
        if asked is None:
            return min(outdated.values(), key=lambda each: each.high_watermark, default=None)
        return outdated.get(asked.broker)

    async def _see_the_end(self, where: TopicPartition, *, is_committed: bool) -> None:
        """Waits until the reported end is the end of the log: at the end all records are committed, and all
        transactions decided.
        """
        while (found := await self._ask(where, LATEST, is_committed=is_committed)) is not None:
            if found.offset == self.world.end_of(where):
                return
            await self.rest(f"{where} ends at {found.offset}")

    async def _look_up_end(self, where: TopicPartition, *, is_committed: bool) -> None:
        partition = self.world.model.partitions[where]
        high_watermark = partition.high_watermark
        asked_ms = self.world.loop.now_ms
        outdated = self.world.outdated_leaders(where)
        found = await self._ask(where, LATEST, is_committed=is_committed)
        if found is None or self._life != self.world.life:
            return
        leader = self._answered_by(where, outdated)
        if leader is not None:
            high_watermark = min(high_watermark, leader.high_watermark)
        if not is_committed and found.offset < high_watermark:
            raise Violation(5, f"{where} ends at {found.offset}, and a reader was told of {high_watermark}")
        if is_committed and leader is None:
            self._check_ended(where, found.offset, asked_ms)
        undecided = self.world.first_undecided(where)
        if is_committed and undecided is not None and found.offset > undecided:
            raise Violation(11, f"{where} is stable up to {found.offset}; a transaction is open from {undecided} on")

    def _check_ended(self, where: TopicPartition, stable_offset: int, asked_ms: float) -> None:
        """Checks that no ended transaction holds the last stable offset for long (I14).

        Where records were deleted, the log may begin within an older transaction that is open. This one holds the last
        stable offset there then, even if an ended transaction has the first record that is left.
        """
        plan, partition = self.world.plan, self.world.model.partitions[where]
        if plan.has_full_disk or plan.has_failed_syncs:
            return  # The marker of an ended transaction may have to wait for the disk.
        if 0 < stable_offset <= partition.deleted:
            return
        for batch in partition.batches:
            ended = None if batch.transaction is None else batch.transaction.ended
            if batch.first_offset == stable_offset and ended is not None:
                life, ended_ms = ended
                if life == self.world.life and asked_ms > ended_ms + self.world.markers_ms:
                    raise Violation(14, f"{batch.transaction} has ended, and holds {where} at {stable_offset}")

    async def _ask(self, where: TopicPartition, time_ms: Millis, *, is_committed: bool = False) -> ListedOffset | None:
        level = "read_committed" if is_committed else "read_uncommitted"
        self._life = self.world.life
        found = await self.client.run(listing_offsets(self.client, {where: time_ms}, isolation_level=level))
        return found.get(where)

    async def _look_up_epoch(self, where: TopicPartition) -> None:
        epochs = sorted(set(self.world.model.partitions[where].epochs.values()))
        if not epochs:
            return
        epoch = self.random.choice(epochs) + self.random.choice((-1, 0, 0, 1))
        life = self.world.life
        partition = self.world.model.partitions[where]
        before = dict(partition.epochs)
        outdated = self.world.outdated_leaders(where)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic=where.topic,
                    partitions=[OffsetForLeaderPartition(partition=where.partition, leader_epoch=epoch)],
                )
            ],
        )
        answer = await self.client.ask(request, OffsetForLeaderEpochResponse, Leader(where))
        found = answer.topics[0].partitions[0]
        code = error_code(found.error_code)
        if code is ErrorCode.NONE and life == self.world.life:
            self.note("finds that epoch %d of %s ends at %d", epoch, where, found.end_offset)
            leader = self._answered_by(where, outdated)
            if leader is not None:
                before = {offset: known for offset, known in before.items() if known <= leader.leader_epoch}
            partition.check_epoch_end(str(where), epoch, before, (found.leader_epoch, found.end_offset))
        elif code is not ErrorCode.NONE and code not in PASSING:
            raise Violation(0, f"OffsetForLeaderEpoch was answered {code.name}")
