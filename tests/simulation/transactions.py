"""Transactions on one simulated broker: the real transaction coordinator, and the broker's code around it.

Markers go to the leader of the partition. Offset commits of producers are verified with the transaction's coordinator
(KIP-890). The leader or the coordinator may be this broker or another one. Requests and answers may be lost on the way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.disk import STATE_PARTITION, BrokerLog, Disk
from tests.simulation.loop import EventLoop, Process
from tests.simulation.network import Network
from tests.simulation.ports import Clock, Promise, Promises, follow

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.core.txn.markers import TransactionMarker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import Message
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.schema.write_txn_markers_request import WritableTxnMarker
from klamm.protocol.types import PartitionIndex, ProducerEpoch, ProducerId, TopicPartition
from klamm.runtime.error_responses import txn_offset_commit_error
from klamm.runtime.group_coordinator import GroupCoordinator
from klamm.runtime.transaction_coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

__all__ = ["ABORT_INTERVAL_MS", "REQUESTS", "Transactions"]

ABORT_INTERVAL_MS: Final = 2_000
OFFSETS_TOPIC: Final = "__consumer_offsets"
REQUESTS: Final = (InitProducerIdRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest)
"""The requests that `ask` answers."""
_ADDS_PARTITIONS_FROM: Final = 5
"""From this version of TxnOffsetCommit on, the producer uses transaction version 2."""
_TIMEOUT_MS: Final = 5_000


class Transactions:
    """The transactions of one process of a broker. `leader_of` returns the leader of a partition."""

    def __init__(
        self,
        loop: EventLoop,
        network: Network,
        disk: Disk,
        broker_id: int,
        *,
        process: Process,
        clock: Clock,
        promises: Promises,
        groups: GroupCoordinator,
        leader_of: Callable[[PartitionIndex], Broker | None],
        next_producer_id: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._network = network
        self._disk = disk
        self._broker_id = broker_id
        self._process = process
        self._clock = clock
        self._promises = promises
        self._groups = groups
        self._leader_of = leader_of
        self._next_producer_id = next_producer_id
        self.coordinator = TransactionCoordinator(
            config=TransactionCoordinatorConfig(abort_interval_ms=ABORT_INTERVAL_MS),
            log=BrokerLog(disk, broker_id, clock.pass_time, STATE_PARTITION),
            timers=clock,
            wall_clock=clock.wall,
            promises=promises,
            spawn=self._spawn,
            markers=self,
            next_producer_id=self._new_producer_id,
            partition_count=lambda: 1,
        )
        self.coordinator.start()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        follow(coroutine, lambda nothing: None)

    async def _new_producer_id(self) -> ProducerId:
        await self._pause(self._loop.between(1, 20))
        return ProducerId(self._next_producer_id())

    async def _pause(self, milliseconds: float) -> None:
        pause = self._promise()
        self._loop.call_later(milliseconds, partial(pause.set_result, True), self._process)
        await pause

    def _promise(self) -> Promise:
        return Promise(self._loop, self._process, None)

    # Requests

    def ask(self, request: Message, client: ClientContext) -> Message | Awaitable[Message]:
        """Returns the answer, or an awaitable for it."""
        if isinstance(request, InitProducerIdRequest):
            return self.coordinator.init_producer_id(request, client)
        if isinstance(request, EndTxnRequest):
            return self.coordinator.end_txn(request, client)
        if isinstance(request, AddOffsetsToTxnRequest):
            return self._add_offsets(request, client)
        assert isinstance(request, TxnOffsetCommitRequest)
        return self._commit(request, client)

    async def _add_offsets(self, request: AddOffsetsToTxnRequest, client: ClientContext) -> Message:
        addition = AddPartitionsToTxnTransaction(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            topics=[
                AddPartitionsToTxnTopic(name=OFFSETS_TOPIC, partitions=[self._groups.partition_for(request.group_id)])
            ],
        )
        context = ClientContext(client.client_id, client.client_host, 3)
        answer = self.coordinator.add_partitions_to_txn(addition, context)
        result = await answer if isinstance(answer, Awaitable) else answer
        return AddOffsetsToTxnResponse(error_code=result.topic_results[0].results_by_partition[0].partition_error_code)

    async def _commit(self, request: TxnOffsetCommitRequest, client: ClientContext) -> Message:
        partition = self._groups.partition_for(request.group_id)
        producer_id, epoch = ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)
        adds_partitions = client.api_version >= _ADDS_PARTITIONS_FROM
        guard = 0
        replicas = self._disk.replicas[partition]
        if replicas.leader == self._broker_id:
            try:
                guard = replicas.producers.begin_verification(
                    producer_id, epoch, adds_partitions=adds_partitions, now_ms=self._clock.wall()
                )
            except KafkaError as error:
                return txn_offset_commit_error(request, error.code)
        if guard:
            where = TopicPartition(OFFSETS_TOPIC, partition)
            code = await self._verify(request.transactional_id, producer_id, epoch, where, adds_partitions)
            if code is not ErrorCode.NONE:
                return txn_offset_commit_error(request, code)
        answer = self._groups.txn_offset_commit(request, client, guard)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _verify(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        where: TopicPartition,
        adds_partitions: bool,
    ) -> ErrorCode:
        def asked(broker: Broker, answer: Callable[[object], None]) -> None:
            assert broker.transactions is not None
            coordinator = broker.transactions.coordinator
            follow(
                coordinator.add_partitions(
                    transactional_id, producer_id, epoch, [where], verify_only=not adds_partitions
                ),
                lambda codes: answer(codes[where]),
            )

        return await self._call(STATE_PARTITION, asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # Markers

    async def write_markers(self, marker: TransactionMarker) -> Mapping[TopicPartition, ErrorCode]:
        """See `MarkerWriter`."""
        wanted = WritableTxnMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )

        def asked(index: PartitionIndex, broker: Broker, answer: Callable[[object], None]) -> None:
            assert broker.coordinator is not None
            written = broker.coordinator.end_transaction(index, wanted)
            if isinstance(written, Message):
                answer(ErrorCode(written.error_code))
            else:
                follow(written, lambda result: answer(ErrorCode(result.error_code)))

        calls = [
            (where, self._begin_call(where.partition, partial(asked, where.partition), ErrorCode.NETWORK_EXCEPTION))
            for where in marker.partitions
        ]
        return {where: await outcome for where, outcome in calls}

    # Requests between brokers

    async def _call(
        self,
        partition: PartitionIndex,
        ask: Callable[[Broker, Callable[[object], None]], None],
        when_lost: ErrorCode,
    ) -> ErrorCode:
        code: ErrorCode = await self._begin_call(partition, ask, when_lost)
        return code

    def _begin_call(
        self,
        partition: PartitionIndex,
        ask: Callable[[Broker, Callable[[object], None]], None],
        when_lost: ErrorCode,
    ) -> Promise:
        """Sends a request to the leader of a partition, and returns a promise of the error code; `when_lost` if the
        request is late or lost.
        """
        promise, loop, network = self._promise(), self._loop, self._network

        def settle(code: object) -> None:
            if not promise.done():
                promise.set_result(code)

        def answer(code: object) -> None:
            if not loop.chance(network.loss_rate):
                loop.call_later(loop.between(1, 10), partial(settle, code), self._process)

        loop.call_later(_TIMEOUT_MS, partial(settle, when_lost), self._process)
        broker = self._leader_of(partition)
        if broker is None or broker.process is None:
            loop.call_later(loop.between(1, 10), partial(settle, when_lost), self._process)
        elif not loop.chance(network.loss_rate):
            at_ms = loop.now_ms + loop.between(1, 10)
            loop.call_at(at_ms, partial(ask, broker, answer), broker.process, is_message=True)
        return promise
