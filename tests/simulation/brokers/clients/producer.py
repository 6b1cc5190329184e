"""A producer without transactions: it sends batches in order, several at a time, and repeats them until they are
written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.brokers.clients.base import PASSING, Participant
from tests.simulation.brokers.clients.client import Leader
from tests.simulation.brokers.model import Batch
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.records import UnstampedRecord, encode_batch
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.schema.produce_response import PartitionProduceResponse, ProduceResponse
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import ClientWorld
    from tests.simulation.brokers.clients.client import ClientConnection

    from klamm.client.conversation import Pending

__all__ = ["Producer", "ProducerIdentity", "Unsent", "may_be_overtaken", "produce_request", "send_in_order"]

ALL = -1
_PRODUCE = 0


class ProducerIdentity(NamedTuple):
    """The producer id and epoch of a batch; -1 for a batch without a producer id."""

    producer_id: int = -1
    epoch: int = -1


class Unsent(NamedTuple):
    """A batch that must be written, with the sequence number of its first record."""

    batch: Batch
    sequence: int
    records: Sequence[UnstampedRecord]


def produce_request(
    world: ClientWorld,
    unsent: Unsent,
    identity: ProducerIdentity,
    *,
    acks: int = ALL,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Returns the request for one batch."""
    where = unsent.batch.where
    data = encode_batch(
        unsent.records,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=unsent.sequence,
        is_transactional=transactional_id is not None,
    )
    topic = TopicProduceData(
        name=where.topic,
        topic_id=world.topic_ids.get(where.topic, bytes(16)),
        partition_data=[PartitionProduceData(index=where.partition, records=data)],
    )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=world.plan.request_timeout_ms,
        topic_data=[topic],
    )


_LEADS_NOT_YET: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
)
"""Errors of a broker that does not know yet that it leads the partition. No log has a trace of the refused batch."""
_MAY_BE_WRITTEN: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)


def may_be_overtaken(sequences: Sequence[int], outcomes: Sequence[ErrorCode | ConnectionFailed]) -> bool:
    """Returns whether a later batch of these may be in the log of a leader that has refused the first one.

    A broker may get a producer's first batch of a partition before it knows that it leads the partition, and the next
    batch after that. It refuses the first one and writes the next one, because an unknown producer may begin with any
    sequence number (KIP-360). From then on, the first batch is out of order. Apache Kafka 4.3 does the same:

    - `KafkaApis.handleProduceRequest` answers UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID for a topic that the
      broker's `MetadataCache` does not have yet.
    - `ReplicaManager.getPartitionOrError` and `Partition.appendRecordsToLeader` answer NOT_LEADER_OR_FOLLOWER until
      `ReplicaManager.applyDelta` has made the broker the leader.
    - `ProducerAppendInfo.checkSequence` accepts any sequence number if the log knows no epoch of the producer. Kafka's
      trunk refuses other numbers than 0 if the log never held a record (KAFKA-15591), and accepts them in other logs.

    A batch that too few in-sync replicas refused is not overtaken: klamm's leader remembers it
    (`ProducerState.write_failed`).
    """
    return (
        bool(sequences)
        and sequences[0] == 0
        and outcomes[0] in _LEADS_NOT_YET
        and any(isinstance(outcome, ConnectionFailed) or outcome in _MAY_BE_WRITTEN for outcome in outcomes[1:])
    )


async def send_in_order(
    connection: ClientConnection,
    requests: Sequence[ProduceRequest],
    answered: Callable[[int, PartitionProduceResponse], None],
) -> list[ErrorCode | ConnectionFailed]:
    """Sends all requests before it awaits the first answer, and returns the outcome of each request.

    `answered` is called as soon as an answer is there, with the index of its request.
    """
    outcomes: list[ErrorCode | ConnectionFailed] = [ConnectionFailed("it was not sent")] * len(requests)

    def arrived(place: int, pending: Pending, body: memoryview) -> None:
        answer = connection.decode(ProduceResponse, pending, body).responses[0].partition_responses[0]
        outcomes[place] = error_code(answer.error_code)
        answered(place, answer)

    sent = []
    try:
        for place, request in enumerate(requests):
            sent.append(connection.send(request, partial(arrived, place)))
    except ConnectionFailed as error:
        outcomes[len(sent)] = error
    for place, pending in enumerate(sent):
        try:
            await connection.receive(pending)
        except ConnectionFailed as error:
            if outcomes[place] is not ErrorCode.NONE:
                outcomes[place] = error
    return outcomes


class Producer(Participant):
    """One producer. An idempotent producer writes each record once; another producer may write a record again."""

    def __init__(self, world: ClientWorld, name: str) -> None:
        super().__init__(world, name)
        self._is_idempotent = self.random.random() < 0.8
        self._acks = ALL if self._is_idempotent else self.random.choice((1, ALL))
        self._most_at_once = self.random.choice((1, 3, 5))
        self._identity = ProducerIdentity()
        self._sequences: dict[TopicPartition, int] = {}
        self._written = 0

    def ceilings(self) -> dict[int, int]:
        return {_PRODUCE: self.random.choice((8, 11, 13, 13))}

    async def live(self) -> None:
        world, random = self.world, self.random
        await self.client.run(self.client.refreshing(world.plan.topics))
        while not world.is_ending:
            if self._is_idempotent and self._identity.producer_id < 0:
                await self._begin()
                continue
            where = random.choice(world.partitions)
            unsent = [self._make_batch(where) for _ in range(random.randint(1, self._most_at_once))]
            for each in unsent:
                world.begin(each.batch)
            await self._write(where, unsent)
            await world.think()
        self.is_finished = True

    async def _begin(self) -> None:
        try:
            answer = await self.client.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
        except ConnectionFailed as error:
            await self.rest(error)
            return
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            self.world.gave_producer_id(self.name, answer.producer_id)
            self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            self._sequences.clear()
            self.note("is producer %d", answer.producer_id)
        elif code in PASSING:
            await self.rest(code)
        else:
            raise Violation(0, f"InitProducerId was answered {code.name}")

    def _make_batch(self, where: TopicPartition) -> Unsent:
        values = []
        for _ in range(self.random.choice((1, 1, 2, 5))):
            self._written += 1
            values.append(b"%s/%d" % (self.name.encode(), self._written))
        now_ms = self.world.now_ms()
        sequence = self._sequences.get(where, 0) if self._is_idempotent else -1
        self._sequences[where] = sequence + len(values)
        batch = Batch(where, self.name, tuple(values), now_ms, self._is_idempotent)
        return Unsent(batch, sequence, [(now_ms, self._make_key(), value, ()) for value in values])

    def _make_key(self) -> bytes | None:
        """Returns a key that makes the batch as large as the world wants it."""
        if not self.world.plan.has_large_batches:
            return None
        return bytes(self.world.sizes.choice((0, 0, 0, 1_000, 40_000, 100_000)))

    async def _write(self, where: TopicPartition, unsent: list[Unsent]) -> None:
        """Repeats the batches until all are written, or until the producer has lost its place in the log."""
        was_overtaken = False
        while unsent:
            try:
                connection = await self.client.connection(Leader(where))
                requests = [produce_request(self.world, each, self._identity, acks=self._acks) for each in unsent]
                outcomes = await send_in_order(connection, requests, partial(self._answered, unsent))
            except ConnectionFailed as error:
                self.client.forget(Leader(where))
                await self.rest(error)
                continue
            if not self.client.has_one_broker and may_be_overtaken([each.sequence for each in unsent], outcomes):
                was_overtaken = True
            unsent, reason = self._sort_out(unsent, outcomes)
            may_be_lost = self._may_be_forgotten(where) or was_overtaken
            if unsent and not self._may_go_on(where, reason, may_be_lost=may_be_lost):
                return
            if unsent:
                self.client.forget(Leader(where))
                await self.rest(reason)

    def _may_be_forgotten(self, where: TopicPartition) -> bool:
        """Returns whether the last acknowledged batch of the producer may be gone: lost, or deleted by retention."""
        partition = self.world.model.partitions[where]
        known = [each.first_offset for each in partition.batches if each.producer == self.name]
        last = max((offset for offset in known if offset is not None), default=0)
        return partition.cuts > 0 or last < partition.deleted

    def _answered(self, unsent: list[Unsent], place: int, answer: PartitionProduceResponse) -> None:
        batch = unsent[place].batch
        if answer.error_code == ErrorCode.NONE:
            self.note("wrote %s to %s at %d", batch, batch.where, answer.base_offset)
            if self._acks == ALL:
                self.world.acknowledged(batch, answer.base_offset)

    def _sort_out(
        self, unsent: list[Unsent], outcomes: list[ErrorCode | ConnectionFailed]
    ) -> tuple[list[Unsent], object]:
        """Returns the batches to send again, from the first unwritten batch on, and the error of that batch."""
        for place, outcome in enumerate(outcomes):
            if outcome is not ErrorCode.NONE and outcome is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                return unsent[place:], outcome
        return [], None

    def _may_go_on(self, where: TopicPartition, reason: object, *, may_be_lost: bool) -> bool:
        """Returns False if the producer has lost its place in the log, and must continue with a new producer id."""
        if isinstance(reason, ConnectionFailed) or reason in PASSING:
            return True
        assert isinstance(reason, ErrorCode)
        if reason is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not may_be_lost:
            raise Violation(10, f"{self.name} wrote in order to {where}, and was answered {reason.name}")
        self.note("has lost its place in %s", where)
        self._identity = ProducerIdentity()
        return False
