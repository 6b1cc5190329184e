"""A consumer of all partitions with fetch sessions: it must see all records, in order, and each record once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from tests.simulation.brokers.clients.base import PASSING, Participant
from tests.simulation.brokers.visibility import Visible
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.client.errors import ConnectionFailed, RequestRefused
from klamm.client.fetch_exchange import batches_of, fetch_version, partition_wanted, read_answer
from klamm.client.fetch_session import WITHOUT_SESSION, FetchSession, SessionPlace
from klamm.client.list_offsets import EARLIEST, listing_offsets
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import FetchResponse, encode_fetch_request
from klamm.protocol.fetch_messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.schema.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.protocol.schema.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from klamm.protocol.types import Offset, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import ClientWorld, OutdatedLeader
    from tests.simulation.brokers.clients.client import ClientConnection

    from klamm.client.config import IsolationLevel

__all__ = ["Passing", "Reader"]

_FETCH: Final = 1
_FLEXIBLE_FROM: Final = 12
_WITH_EPOCH: Final = 9
"""The first version with the leader epoch that the client knows (KIP-320)."""

_Asked = tuple[TopicPartition, int, int, dict[int, int]]
"""A partition to validate, its leader's epoch, the position, and the epochs that were known before the request."""


class Reader(Participant):
    """A consumer that reads until it has all records."""

    is_reader = True

    def __init__(self, world: ClientWorld, name: str, isolation_level: IsolationLevel) -> None:
        super().__init__(world, name, isolation_level)
        self.is_committed = isolation_level == "read_committed"
        self.positions = dict.fromkeys(world.partitions, 0)
        self.visible: Mapping[TopicPartition, dict[int, bytes]] = {where: {} for where in world.partitions}
        """The records that the application gets, by offset."""
        self._out_of_range: set[TopicPartition] = set()
        """Partitions whose position may be below the beginning of the log."""
        self._epochs: dict[TopicPartition, int] = {}
        """The leader epoch of the last record that was read."""
        self._validated: dict[TopicPartition, int] = {}
        """The leader epoch under which the position was validated."""
        self._sessions: dict[ClientConnection, _Session] = {}
        self._is_paused: set[TopicPartition] = set()

    def ceilings(self) -> dict[int, int]:
        # Before version 9 a client does not notice that records were lost and replaced by other records (KIP-320).
        lowest = 11 if self.world.plan.may_lose else 8
        return {_FETCH: self.random.choice((lowest, 11, 12, 18, 18))}

    async def live(self) -> None:
        world = self.world
        is_fresh, life = False, 0
        while not (world.is_quiet and is_fresh and life == world.life and self._is_at_end()):
            try:
                if not is_fresh or (world.is_quiet and life != world.life):
                    life = world.life
                    await self.client.run(self.client.refreshing(world.plan.topics))
                    await self._validate()
                    await self._pass_over_deleted()
                    is_fresh = True
                for connection, wheres in await self.connections():
                    await self._fetch(connection, wheres)
            except (ConnectionFailed, RequestRefused, Passing) as error:
                is_fresh = False
                await self.rest(error)
                continue
            if world.is_quiet:
                self.take_larger_answers()
                self._is_paused.clear()
            elif self.random.random() < 0.05:
                self._pause_some()
            await world.think()
        self.is_finished = True

    def _is_at_end(self) -> bool:
        return all(position == self.world.end_of(where) for where, position in self.positions.items())

    def _pause_some(self) -> None:
        self._is_paused = {where for where in self.world.partitions if self.random.random() < 0.3}

    # Fetching

    async def connections(self) -> list[tuple[ClientConnection, Collection[TopicPartition]]]:
        """Returns connections to brokers, each with the partitions to read there."""
        return await self.client.connections(self.positions)

    def check_epoch(self, where: TopicPartition, epoch: int, newest: int) -> None:
        """Checks that no leader answers in a leader epoch before the newest one that it must know."""
        if 0 <= epoch < newest:
            raise Violation(6, f"a fetch from {where} was answered in leader epoch {epoch}, and {newest} was known")

    async def _fetch(self, connection: ClientConnection, wheres: Collection[TopicPartition]) -> None:
        session = self._sessions.get(connection)
        if session is None:
            self._sessions = {each: known for each, known in self._sessions.items() if not each.is_closed}
            session = self._sessions[connection] = _Session()
        world = self.world
        topic_ids = [world.topic_ids[topic] for topic in world.plan.topics]
        version = fetch_version(connection, topic_ids)
        place = session.fetches.next_place()
        wanted = {
            where: partition_wanted(self.client, where, Offset(self.positions[where]))
            for where in wheres
            if where not in self._is_paused
        }
        if not wanted:
            self._is_paused.clear()
            return
        request = self._request(place, wanted, session.told)
        newest = {where: world.newest_epoch_at(where, connection.address) for where in wanted}
        body = encode_fetch_request(version, request)
        pending = connection.send_body(_FETCH, version, body, flexible=version >= _FLEXIBLE_FROM)
        answer = read_answer(connection, pending, await connection.receive(pending))
        code = error_code(answer.error_code)
        if session.fetches.answered(place, code, answer.session_id):
            session.told = {}
            return
        if code is not ErrorCode.NONE:
            raise Violation(0, f"a fetch of {self.name} was answered {code.name}")
        session.told = wanted if answer.session_id else {}
        for where, partition in self._partitions_of(answer):
            epoch = wanted[where].current_leader_epoch
            is_answered = partition.error_code == ErrorCode.NONE and version >= _WITH_EPOCH
            if is_answered and not world.may_be_outdated(connection.address):
                self.check_epoch(where, epoch, newest[where])
        errors = [error for each in self._partitions_of(answer) if (error := self._take(*each)) is not None]
        if errors:
            raise Passing(*errors)

    def _request(
        self,
        place: SessionPlace,
        wanted: Mapping[TopicPartition, FetchPartition],
        told: Mapping[TopicPartition, FetchPartition],
    ) -> FetchRequest:
        is_incremental = place != WITHOUT_SESSION and place.is_incremental
        named = wanted
        forgotten: dict[str, list[int]] = {}
        if is_incremental:
            named = {where: each for where, each in wanted.items() if told.get(where) != each}
            for where in told:
                if where not in wanted:
                    forgotten.setdefault(where.topic, []).append(where.partition)
        topics: dict[str, list[FetchPartition]] = {}
        for where, each in named.items():
            topics.setdefault(where.topic, []).append(each)
        ids = self.world.topic_ids
        config = self.client.config
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(self.is_committed),
            session_id=place.session_id,
            session_epoch=place.epoch,
            topics=[FetchTopic(name, ids[name], partitions) for name, partitions in topics.items()],
            forgotten=[ForgottenTopic(name, ids[name], indexes) for name, indexes in forgotten.items()],
        )

    def _partitions_of(self, answer: FetchResponse) -> Iterator[tuple[TopicPartition, FetchPartitionResponse]]:
        names = {topic_id: name for name, topic_id in self.world.topic_ids.items()}
        for topic in answer.topics:
            name = topic.name if topic.topic_id is None else names.get(topic.topic_id)
            for partition in topic.partitions:
                where = TopicPartition(name or "", partition.index)  # type: ignore[arg-type]
                if where not in self.positions:
                    raise Violation(0, f"{self.name} was answered {where}, which it has not asked for")
                yield where, partition

    def _take(self, where: TopicPartition, partition: FetchPartitionResponse) -> ErrorCode | None:
        """Takes a partition's records; returns the partition's error, or None."""
        code = error_code(partition.error_code)
        if code in PASSING or code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._validated.pop(where, None)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._may_be_deleted(where):
                self._out_of_range.add(where)
            return code
        if code is not ErrorCode.NONE:
            raise Violation(0, f"{self.name} was answered {code.name} for {where}")
        position = self.positions[where]
        fetched = batches_of(partition, Offset(position))
        world = self.world
        world.told_high_watermark(where, partition.high_watermark)
        if fetched is None:
            return None
        shown = Visible(fetched.aborted_transactions if self.is_committed else ())
        upper_bound = partition.last_stable_offset if self.is_committed else partition.high_watermark
        for at, header in iterate_batches(fetched.records):
            if header.base_offset > position or header.next_offset <= position:
                raise Violation(
                    1, f"{self.name} asked {where} for offset {position}, and got a batch at {header.base_offset}"
                )
            if header.next_offset > upper_bound:
                raise Violation(
                    11 if self.is_committed else 5,
                    f"{self.name} got offset {header.last_offset} of {where}, whose records end at {upper_bound}",
                )
            for offset, value, is_shown in shown.records(fetched.records, at, header):
                world.saw(where, offset, value, header.partition_leader_epoch)
                if is_shown and value is not None and offset >= position:
                    self._show(where, offset, value)
            position = header.next_offset
            self._epochs[where] = header.partition_leader_epoch
        self.positions[where] = position
        self.note("has read %s up to %d", where, position)
        return None

    def _may_be_deleted(self, where: TopicPartition) -> bool:
        return self.positions[where] < self.world.model.partitions[where].deleted

    async def _pass_over_deleted(self) -> None:
        """Goes on where the log begins, if a position is below that."""
        for where in [each for each in self.world.partitions if each in self._out_of_range]:
            found = (await self.client.run(listing_offsets(self.client, {where: EARLIEST}))).get(where)
            if found is None:
                continue
            self._out_of_range.discard(where)
            deleted = self.world.model.partitions[where].deleted
            if found.offset > deleted:
                raise Violation(4, f"{where} begins at {found.offset}, and is deleted up to {deleted}")
            if found.offset > self.positions[where]:
                self.note("goes on in %s at %d: what is before it is deleted", where, found.offset)
                self.positions[where] = found.offset
                self._epochs.pop(where, None)

    def _show(self, where: TopicPartition, offset: int, value: bytes) -> None:
        self.visible[where][offset] = value
        if self.is_committed:
            self.world.transactions.shown(where, offset, value)

    # After a change of leader epochs (KIP-320)

    async def _validate(self) -> None:
        """Validates the positions, and goes back where the log was truncated below the position."""
        asked: list[_Asked] = []
        for where, position in self.positions.items():
            leader = self.client.leader_of(where)
            if leader is None:
                if self.client.has_one_broker:
                    raise Passing("no leader")
                continue  # The other partitions have leaders.
            if self._validated.get(where) == leader.epoch or where not in self._epochs:
                continue
            asked.append((where, leader.epoch, position, dict(self.world.model.partitions[where].epochs)))
        if not asked:
            return
        for connection, wheres in await self.client.connections([where for where, *_ in asked]):
            await self._validate_at(connection, [each for each in asked if each[0] in wheres])

    async def _validate_at(self, connection: ClientConnection, asked: list[_Asked]) -> None:
        """Asks one leader. It answers only in the leader epoch that the request names, and knows the epochs up to this.

        In worlds of replicas, a leader that has not heard of its successor says that its epoch ends where its own log
        ends, as Kafka's does (`Partition.lastOffsetForLeaderEpoch` of Apache Kafka 4.3). Its log may end before records
        of an earlier epoch that its successor had and has committed: the former leader holds those below its own high
        watermark. The reader validates again under the next epoch. In all other worlds a leader knows the epoch of each
        record that was read before.
        """
        topics: dict[str, OffsetForLeaderTopic] = {}
        for where, leader_epoch, _, _ in asked:
            topic = topics.setdefault(where.topic, OffsetForLeaderTopic(topic=where.topic))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=where.partition,
                    current_leader_epoch=leader_epoch,
                    leader_epoch=self._epochs[where],
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
        newest = {where: self.world.newest_epoch_at(where, connection.address) for where, *_ in asked}
        former = {where: self._former_leader(where) for where, *_ in asked}
        answer = await connection.ask(request, OffsetForLeaderEpochResponse)
        found = {
            TopicPartition(topic.topic, partition.partition): partition  # type: ignore[arg-type]
            for topic in answer.topics
            for partition in topic.partitions
        }
        for where, epoch, position, before in asked:
            one = found[where]
            if one.error_code:
                raise Passing(error_code(one.error_code))
            if epoch < newest[where] and not self.world.may_be_outdated(connection.address):
                raise Violation(6, f"{where} was validated in leader epoch {epoch}, and {newest[where]} was known")
            must_know = max(epoch, newest[where])
            known = {offset: of_offset for offset, of_offset in before.items() if of_offset <= must_know}
            leader = former[where]
            if leader is not None:
                known = {offset: of_offset for offset, of_offset in known.items() if offset < leader.high_watermark}
            end = one.leader_epoch, one.end_offset
            self.world.model.partitions[where].check_epoch_end(str(where), self._epochs[where], known, end)
            if one.end_offset < position and leader is not None:
                raise Passing("a former leader has fewer records")
            if one.end_offset < position:
                self._go_back(where, max(one.end_offset, 0))
            self._validated[where] = epoch

    def _former_leader(self, where: TopicPartition) -> OutdatedLeader | None:
        """Returns the broker that is asked, if it leads the partition in its own metadata only."""
        asked = self.client.leader_of(where)
        return None if asked is None else self.world.outdated_leaders(where).get(asked.broker)

    def _go_back(self, where: TopicPartition, offset: int) -> None:
        """Sets the position back, because the log was truncated below it."""
        self.note("goes back in %s to %d", where, offset)
        if not self.world.model.partitions[where].cuts:
            raise Violation(8, f"{self.name} is told that {where} was cut at {offset}, and it was not")
        self.positions[where] = offset
        self.visible[where] = {at: value for at, value in self.visible[where].items() if at < offset}  # type: ignore[index]


class _Session:
    """The fetch session with one broker."""

    def __init__(self) -> None:
        self.fetches = FetchSession()
        self.told: dict[TopicPartition, FetchPartition] = {}
        """The partitions in the broker's fetch session, as far as the client knows."""


class Passing(Exception):
    """A temporary error that a metadata refresh fixes."""
