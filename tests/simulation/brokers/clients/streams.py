"""Reads of partition ranges by klamm's own client: `PartitionStream` makes the decisions, and this module moves the
bytes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.simulation.brokers.clients.base import Participant
from tests.simulation.brokers.clients.client import Leader
from tests.simulation.brokers.visibility import Visible
from tests.simulation.violation import Violation

from klamm.client.errors import ConnectionFailed, GaveUp, LogEndsEarly, OffsetOutOfRange
from klamm.client.fetch_exchange import FetchedBatches
from klamm.client.partition_stream import PartitionStream, Passing
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import Offset, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import ClientWorld
    from tests.simulation.brokers.clients.client import ClientConnection

    from klamm.client.config import IsolationLevel
    from klamm.client.partition_stream import FetchUnderWay
    from klamm.storage.log.log import Log

__all__ = ["StreamReader"]


class StreamReader(Participant):
    """A client that reads existing ranges repeatedly, and everything at the end."""

    is_reader = True

    def __init__(self, world: ClientWorld, name: str, isolation_level: IsolationLevel) -> None:
        super().__init__(world, name, isolation_level)
        self.is_committed = isolation_level == "read_committed"
        self.found: dict[TopicPartition, dict[int, bytes]] = {}
        """All records by offset, read at the end."""

    async def live(self) -> None:
        world = self.world
        while not world.is_quiet:
            where = self.random.choice(world.partitions)
            end = world.stable_end_of(where) if self.is_committed else world.model.partitions[where].high_watermark
            if end > 0:
                start = self.random.randrange(end)
                await self._read_or_lose(where, start, min(end, start + self.random.choice((1, 10, 40))))
            await world.think()
        self.take_larger_answers()
        for where in world.partitions:
            while (log := world.log_of(where)) is None:  # its next leader has not learned of it yet
                await world.think()
            self.found[where] = await self._read_all(where, log)
        self.is_finished = True

    async def _read_all(self, where: TopicPartition, log: Log) -> dict[int, bytes]:
        """Reads a log to its end. Retention may delete records meanwhile."""
        while True:
            start = log.log_start_offset
            try:
                return await self._read(where, start, self.world.end_of(where))
            except OffsetOutOfRange:
                if log.log_start_offset == start:
                    raise

    async def _read_or_lose(self, where: TopicPartition, start: int, end: int) -> None:
        cuts = self.world.model.partitions[where].cuts
        self.note("streams %s from %d to %d", where, start, end)
        try:
            await self._read(where, start, end)
        except (GaveUp, LogEndsEarly, OffsetOutOfRange) as error:
            model = self.world.model.partitions[where]
            is_deleted = isinstance(error, OffsetOutOfRange) and start < model.deleted
            if model.cuts == cuts and not is_deleted:
                raise Violation(26, f"{self.name} reads what is there, and: {error}") from error

    async def _read(self, where: TopicPartition, start: int, end: int) -> dict[int, bytes]:
        """Returns the records that an application sees, by offset."""
        stream = PartitionStream(self.client, where, Offset(start), Offset(end))
        shown: dict[int, bytes] = {}
        connection: ClientConnection | None = None
        under_way: FetchUnderWay | None = None
        position = start
        may_lack = False
        cuts = self.world.model.partitions[where].cuts
        try:
            while not stream.is_finished:
                if self.world.model.partitions[where].cuts != cuts:
                    return {}  # The requested records may be lost.
                try:
                    if connection is None or under_way is None:
                        connection, under_way = await self._send(stream, where)
                        may_lack = self._may_lack_committed(where, connection)
                    answered, under_way = under_way, None
                    body = await connection.receive(answered.pending)
                    fetched = stream.received(connection, answered, body)
                except (ConnectionFailed, Passing, OffsetOutOfRange) as error:
                    if isinstance(error, OffsetOutOfRange) and not may_lack:
                        raise
                    connection = under_way = None
                    await asyncio.sleep(stream.pause_after(error))
                    await self.client.run(self.client.refreshing([where.topic]))
                    stream.check_exists()
                    continue
                if fetched is None:
                    await asyncio.sleep(stream.pause_at_end())
                    continue
                if not stream.is_finished and not connection.is_closed:
                    under_way = stream.send(connection)  # Fetches ahead of the application, as klamm's clients do.
                    may_lack = self._may_lack_committed(where, connection)
                position = self._take(where, fetched, start, position, shown)
                under_way = stream.resumed(connection, under_way)
        finally:
            if not self.world.is_over:
                stream.close(connection, under_way)
        return {offset: value for offset, value in shown.items() if start <= offset < end}

    def _may_lack_committed(self, where: TopicPartition, connection: ClientConnection) -> bool:
        return self.world.may_lack_committed(where, self.client.epoch_of(where), connection.address)

    async def _send(self, stream: PartitionStream, where: TopicPartition) -> tuple[ClientConnection, FetchUnderWay]:
        if self.client.missing([where.topic]):
            await self.client.run(self.client.refreshing([where.topic]))
        stream.leader()
        connection = await self.client.connection(Leader(where))
        return connection, stream.send(connection)

    def _take(
        self, where: TopicPartition, fetched: FetchedBatches, start: int, position: int, shown: dict[int, bytes]
    ) -> int:
        visible = Visible(fetched.aborted_transactions if self.is_committed else ())
        for at, header in iterate_batches(fetched.records):
            if header.base_offset > position or header.next_offset <= position:
                raise Violation(
                    1, f"{self.name} reads {where} at {position}, and klamm's client gives it {header.base_offset}"
                )
            for offset, value, is_shown in visible.records(fetched.records, at, header):
                self.world.saw(where, offset, value, header.partition_leader_epoch)
                if is_shown and value is not None and offset >= start:
                    shown[offset] = value
                    if self.is_committed:
                        self.world.transactions.shown(where, offset, value)
            position = header.next_offset
        return position
