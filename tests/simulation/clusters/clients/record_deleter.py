"""A client that deletes records with DeleteRecords (KIP-107), and looks whether they are gone.

It deletes only records that are committed and whose transactions have ended, and none behind the last acknowledged
batch of an idempotent producer: a new replica learns of a producer from the batches that are left, as Kafka's does.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.brokers.clients.base import PASSING, Participant
from tests.simulation.brokers.clients.client import Leader
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.client.errors import ConnectionFailed
from klamm.client.fetch_exchange import fetch_version, partition_wanted, read_answer, send_fetch
from klamm.client.fetch_session import WITHOUT_SESSION
from klamm.client.list_offsets import EARLIEST
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchTopic
from klamm.protocol.schema.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.schema.delete_records_response import DeleteRecordsResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.types import BrokerId, Offset, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.clients.client import ClientConnection
    from tests.simulation.clusters.replicated import ReplicaWorld

    from klamm.metadata.image import PartitionImage
    from klamm.storage.log.log import Log

__all__ = ["RecordDeleter"]

_LONGEST_PAUSE_S: Final = 0.1
_TIMEOUTS_MS: Final = (0, 100, 500)


class _Term(NamedTuple):
    """A partition at one moment: its state in the metadata, and the logs of the replicas that are in sync and run."""

    image: PartitionImage
    logs: dict[BrokerId, Log]


class RecordDeleter(Participant):
    """A client that raises the log start offsets of partitions."""

    world: ReplicaWorld

    def __init__(self, world: ReplicaWorld, name: str, draw: Random) -> None:
        super().__init__(world, name)
        self._draw = draw

    async def live(self) -> None:
        world, draw = self.world, self._draw
        await self.client.run(self.client.refreshing(world.plan.topics))
        while not world.is_ending:
            await asyncio.sleep(draw.random() * _LONGEST_PAUSE_S)
            await self._delete(draw.choice(world.partitions), draw.choice(_TIMEOUTS_MS))
        # There are no more faults: a deletion is made on all replicas.
        for where in world.partitions:
            while not await self._delete(where, max(_TIMEOUTS_MS)):
                await self.rest()
        self.is_finished = True

    def _last_deletable(self, where: TopicPartition) -> int:
        """Returns up to which offset records may be deleted; see the module."""
        last: dict[str, int] = {}
        for batch in self.world.model.partitions[where].batches:
            if batch.is_idempotent and batch.first_offset is not None:
                last[batch.producer] = max(last.get(batch.producer, 0), batch.first_offset)
        return min([self.world.stable_end_of(where), *last.values()])

    async def _delete(self, where: TopicPartition, timeout_ms: int) -> bool:
        """Makes one attempt to delete some records. Returns whether they are deleted, or there are none."""
        world = self.world
        end = self._last_deletable(where)
        if end <= 0:
            return True
        offset = self._draw.randint(1, end)
        world.read_transactions()  # the world could not find deleted markers
        partition = DeleteRecordsPartition(partition_index=where.partition, offset=offset)
        request = DeleteRecordsRequest(
            timeout_ms=timeout_ms, topics=[DeleteRecordsTopic(name=where.topic, partitions=[partition])]
        )
        try:
            connection = await self.client.connection(Leader(where))
            self.note("deletes the records of %s below %d", where, offset)
            before = self._term(where)
            answer = (await connection.ask(request, DeleteRecordsResponse)).topics[0].partitions[0]
            code = error_code(answer.error_code)
            if code is ErrorCode.NONE:
                self.note("has deleted the records of %s below %d", where, answer.low_watermark)
                self._check_replicas(where, offset, answer.low_watermark, connection, before)
                await self._check_gone(where, offset, connection, before)
                return True
        except ConnectionFailed as error:
            self.client.forget(Leader(where))
            await self.rest(error)
            return False
        self.client.forget(Leader(where))
        # The next leader's high watermark may be lower at first.
        if code not in PASSING and code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Violation(0, f"the deletion of records of {where} was answered {code.name}")
        await self.rest(code)
        return False

    def _term(self, where: TopicPartition) -> _Term:
        image = self.world.checks.image.topics[where.topic].partitions[where.partition]
        logs = {}
        for number in image.isr:
            machine = self.world.machines[number]
            log = machine.logs.get(where) if self.world.checks.runs(number, machine) else None
            if log is not None and not log.is_offline:
                logs[number] = log
        return _Term(image, logs)

    def _is_led_at(self, connection: ClientConnection, term: _Term) -> bool:
        return self.world.machines.get(term.image.leader) is self.world.machine_at(connection.address)

    def _check_replicas(
        self, where: TopicPartition, offset: int, low_watermark: int, connection: ClientConnection, before: _Term
    ) -> None:
        """Checks that the log start has risen on all replicas that were in sync and ran all the time. The leader waits
        for the live ones."""
        if low_watermark < offset:
            raise Violation(0, f"{where} begins at {low_watermark}, and was to begin at {offset}")
        after = self._term(where)
        if after.image != before.image or not self._is_led_at(connection, before):
            return
        for number, log in before.logs.items():
            if after.logs.get(number) is log and log.log_start_offset < offset:
                raise Violation(
                    0,
                    f"the records of {where} below {offset} are deleted, and the log of broker {number} begins at"
                    f" {log.log_start_offset}",
                )

    async def _check_gone(
        self, where: TopicPartition, offset: int, connection: ClientConnection, before: _Term
    ) -> None:
        """Checks that the leader tells where its log begins, and sends no deleted record."""
        wanted = ListOffsetsPartition(partition_index=where.partition, timestamp=EARLIEST)
        listing = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=where.topic, partitions=[wanted])])
        listed = (await connection.ask(listing, ListOffsetsResponse)).topics[0].partitions[0]
        code = await self._fetch(where, Offset(offset - 1), connection)
        after = self._term(where)
        leader = before.image.leader
        is_same = after.image.leader == leader and after.image.leader_epoch == before.image.leader_epoch
        log = before.logs.get(leader)
        if not is_same or log is None or after.logs.get(leader) is not log or not self._is_led_at(connection, before):
            return
        if listed.error_code == ErrorCode.NONE and listed.offset < offset:
            raise Violation(0, f"{where} is told to begin at {listed.offset}, and its records below {offset} are gone")
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE and code not in PASSING:
            raise Violation(0, f"a fetch of the deleted offset {offset - 1} of {where} was answered {code.name}")

    async def _fetch(self, where: TopicPartition, offset: Offset, connection: ClientConnection) -> ErrorCode:
        topic_id = self.world.topic_ids[where.topic]
        pending = send_fetch(
            connection,
            fetch_version(connection, [topic_id]),
            self.client.config,
            [FetchTopic(where.topic, topic_id, [partition_wanted(self.client, where, offset)])],
            WITHOUT_SESSION,
            max_bytes=self.client.config.fetch_max_bytes,
            max_wait_ms=0,
        )
        answer = read_answer(connection, pending, await connection.receive(pending))
        return error_code(answer.topics[0].partitions[0].error_code)
