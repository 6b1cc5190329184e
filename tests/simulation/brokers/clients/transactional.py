"""A transactional producer: each of its transactions writes records to several partitions, and commits offsets.

With transaction version 1 the producer adds partitions and groups itself. With version 2 the broker adds them, and each
transaction has an epoch of its own (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.brokers.clients.base import PASSING, Participant, Refused
from tests.simulation.brokers.clients.client import Coordinator, Leader
from tests.simulation.brokers.clients.producer import ProducerIdentity, Unsent, produce_request, send_in_order
from tests.simulation.brokers.model import Batch
from tests.simulation.brokers.transactions import Outcome, Transaction
from tests.simulation.violation import Violation

from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.produce_response import PartitionProduceResponse
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.txn_offset_commit_response import TxnOffsetCommitResponse
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import ClientWorld

__all__ = ["TransactionalProducer"]

_GROUP: Final = 0
_TRANSACTION: Final = 1
_OVER: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors that end the transaction. The producer needs a new epoch to continue."""


class TransactionalProducer(Participant):
    """One transactional id, with all restarts of its producer. Its group has the same name."""

    def __init__(self, world: ClientWorld, name: str, version: int) -> None:
        self._version = version
        super().__init__(world, name)
        self._may_be_fenced = False
        """Whether an InitProducerId that got no answer may still fence a later transaction."""
        self._coordinator = Coordinator(_TRANSACTION, name)
        self._identity = ProducerIdentity()
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._written = 0

    def ceilings(self) -> dict[int, int]:
        by_name = {8: 9, 9: 9, 24: 3}
        return by_name if self._version > 1 else {**by_name, 0: 11, 26: 4, 28: 4}

    async def live(self) -> None:
        await self._find_coordinators()
        is_ready = False
        while not self.world.is_ending:
            transaction: Transaction | None = None
            try:
                if not is_ready:
                    await self._begin()
                    is_ready = True
                transaction = self.world.transactions.begin(self.name, self.world.loop.now_ms, self._version)
                transaction.may_be_fenced = self._may_be_fenced
                is_ready = await self._transact(transaction)
            except Refused as error:
                if error.code not in _OVER:
                    raise Violation(0, f"{self.name}: {error}") from error
                self.note("begins anew: %s", error)
                is_ready = False
            if transaction is not None and transaction.outcome is Outcome.OPEN:
                transaction.outcome = Outcome.ABORTED
            await self.world.think()
        self.is_finished = True

    async def _find_coordinators(self) -> None:
        for key_type in (_TRANSACTION, _GROUP):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[self.name])
            await self.until_answered(
                request, FindCoordinatorResponse, lambda answer: (one.error_code for one in answer.coordinators)
            )

    async def _begin(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=self.world.plan.transaction_timeout_ms
        )
        unanswered = self.unanswered
        answer = await self.until_answered(request, InitProducerIdResponse, to=self._coordinator)
        if self.unanswered > unanswered and not self.client.has_one_broker:
            self._may_be_fenced = True
        self._take(answer.producer_id, answer.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        """Takes over the identity in an answer. The epoch rises with each InitProducerId, and with each end of a
        transaction of version 2 (I13)."""
        if producer_id != self._identity.producer_id:
            self.world.gave_producer_id(self.name, producer_id)
        elif epoch <= self._identity.epoch:
            raise Violation(13, f"{self.name} has {self._identity}, and is given epoch {epoch}")
        self._identity = ProducerIdentity(producer_id, epoch)
        self._sequences.clear()
        self.note("is producer %d with epoch %d", producer_id, epoch)

    # One transaction

    async def _transact(self, transaction: Transaction) -> bool:
        """Runs a transaction; returns False if the producer dies before the end of it."""
        self._added.clear()
        self.note("begins %s", transaction)
        world, random = self.world, self.random
        for where in random.sample(world.partitions, random.randint(1, min(2, len(world.partitions)))):
            for _ in range(random.choice((1, 1, 2))):
                await self._write(transaction, where)
            if random.random() < 0.3:
                await world.think()
        if random.random() < 0.6:
            await self._commit_offsets(transaction)
        draw = random.random()
        # If logs forget idle producers before a transaction times out, more producers pause.
        if draw > (0.6 if world.plan.producer_expiry_ms < world.plan.transaction_timeout_ms else 0.9):
            await self._pause()
        elif draw < 0.1:
            self.note("dies in %s", transaction)
            self.client.disconnect()
            return False
        await self._end(transaction, is_commit=random.random() < 0.6)
        return True

    async def _pause(self) -> None:
        """Pauses, possibly for longer than the transaction timeout."""
        for _ in range(self.random.randint(1, 60)):
            if not self.world.is_ending:
                await self.world.think()

    async def _write(self, transaction: Transaction, where: TopicPartition) -> None:
        if self._version == 1 and where not in self._added:
            await self._add(where)
        values = []
        for _ in range(self.random.choice((1, 1, 3))):
            self._written += 1
            values.append(b"%s/%d/%d" % (self.name.encode(), transaction.number, self._written))
        now_ms = self.world.now_ms()
        batch = Batch(where, self.name, tuple(values), now_ms, is_idempotent=True, transaction=transaction)
        transaction.batches.append(batch)
        self.world.begin(batch)
        sequence = self._sequences.get(where, 0)
        unsent = Unsent(batch, sequence, [(now_ms, None, value, ()) for value in values])
        request = produce_request(self.world, unsent, self._identity, transactional_id=self.name)
        while True:
            try:
                connection = await self.client.connection(Leader(where))
                (outcome,) = await send_in_order(connection, [request], partial(self._answered, batch))
            except ConnectionFailed as error:
                outcome = error
            if outcome is ErrorCode.NONE:
                break
            if isinstance(outcome, ErrorCode) and outcome not in PASSING:
                raise Refused("Produce", outcome)
            self.client.forget(Leader(where))
            await self.rest(outcome)
        self._sequences[where] = sequence + len(values)

    def _answered(self, batch: Batch, place: int, answer: PartitionProduceResponse) -> None:
        if answer.error_code == ErrorCode.NONE:
            self.note("wrote %s to %s at %d", batch, batch.where, answer.base_offset)
            self.world.acknowledged(batch, answer.base_offset)

    async def _add(self, where: TopicPartition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=where.topic, partitions=[where.partition])],
        )
        await self.until_answered(request, AddPartitionsToTxnResponse, _codes_of_addition, to=self._coordinator)
        self._added.add(where)

    async def _commit_offsets(self, transaction: Transaction) -> None:
        producer_id, epoch = self._identity
        if self._version == 1:
            addition = AddOffsetsToTxnRequest(
                transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, group_id=self.name
            )
            await self.until_answered(addition, AddOffsetsToTxnResponse, to=self._coordinator)
        wheres = self.world.partitions[:2]
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for where in wheres:
            self.world.transactions.commits_offset(transaction, where)
            topic = topics.setdefault(where.topic, TxnOffsetCommitRequestTopic(name=where.topic))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(partition_index=where.partition, committed_offset=transaction.number)
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=list(topics.values()),
        )
        await self.until_answered(request, TxnOffsetCommitResponse, _codes_of_commit, to=Coordinator(_GROUP, self.name))

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=is_commit,
        )
        transaction.outcome = Outcome.IN_DOUBT if is_commit else Outcome.ABORTED
        self.note("%s %s", "commits" if is_commit else "aborts", transaction)
        answer = await self.until_answered(request, EndTxnResponse, to=self._coordinator)
        if is_commit:
            transaction.outcome = Outcome.COMMITTED
        transaction.ended = self.world.life, self.world.loop.now_ms
        self.note("has ended %s", transaction)
        if self._version > 1:
            self._take(answer.producer_id, answer.producer_epoch)
            self.world.ended(transaction, self._identity, is_commit=is_commit)


def _codes_of_addition(answer: AddPartitionsToTxnResponse) -> Iterator[int]:
    for topic in answer.results_by_topic_v3_and_below:
        for partition in topic.results_by_partition:
            yield partition.partition_error_code


def _codes_of_commit(answer: TxnOffsetCommitResponse) -> Iterator[int]:
    for topic in answer.topics:
        for partition in topic.partitions:
            yield partition.error_code
