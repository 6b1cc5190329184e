"""The transaction coordinator's interface for the handlers: one method per API, from decoded request to response.

Makes the checks that need no state (an empty transactional id, a timeout out of range), finds the responsible
partition, lets the runtime decide there, and puts errors into the shape of each API. After Apache Kafka's
`TransactionCoordinator` and the parts of `KafkaApis` and `AddPartitionsToTxnManager` around it.

A method returns the response if it is known at once, otherwise an awaitable of it. Only `list_transactions` raises
KafkaError.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.txn.additions import partitions_of, result_for, topics_of
from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.core.txn.events import TransactionRemark
from klamm.core.txn.markers import MarkerWriter
from klamm.core.txn.shard import TransactionShard
from klamm.core.txn.transaction_description import compile_pattern, unknown_states
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResult
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.schema.describe_transactions_response import DescribeTransactionsResponse
from klamm.protocol.schema.describe_transactions_response import TransactionState as DescribedTransaction
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.protocol.types import (
    PartitionIndex,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from klamm.runtime.answers import Answer, then
from klamm.runtime.coordinator_facade import CoordinatorFacade
from klamm.runtime.coordinator_runtime import CoordinatorRuntime
from klamm.runtime.marker_sender import MarkerSender
from klamm.runtime.ports import CoordinatorLog, Promise, Promises, Spawn, Timers, WallClock
from klamm.runtime.producer_id_pool import ProducerIdPool
from klamm.runtime.transaction_record_serde import TransactionRecordSerde

__all__ = ["TransactionCoordinator", "merge_lists"]

_logger = logging.getLogger(__name__)

# Clients of earlier versions don't know PRODUCER_FENCED; they get INVALID_PRODUCER_EPOCH instead.
_INIT_KNOWS_FENCED_FROM: Final = 4
_END_KNOWS_FENCED_FROM: Final = 2
_ADD_KNOWS_FENCED_FROM: Final = 2
_BROKERS_VERSION: Final = 5


class TransactionCoordinator(CoordinatorFacade[TransactionShard]):
    """All transactional ids whose partition of `__transaction_state` this broker leads.

    `partition_count` returns how many partitions that topic has, or will have. `next_producer_id` returns a producer id
    that no producer had before.
    """

    def __init__(
        self,
        *,
        config: TransactionCoordinatorConfig,
        log: CoordinatorLog,
        timers: Timers,
        wall_clock: WallClock,
        promises: Promises,
        spawn: Spawn,
        markers: MarkerWriter,
        next_producer_id: Callable[[], Awaitable[ProducerId]],
        partition_count: Callable[[], int],
        write_timeout_ms: int = 5000,
        has_session: Callable[[], bool] | None = None,
    ) -> None:
        self._config = config
        self._timers = timers
        self._promises = promises
        self._producer_ids = ProducerIdPool(next_producer_id, spawn)
        super().__init__(
            CoordinatorRuntime(
                lambda leader_epoch: TransactionShard(config, self._producer_ids.take, leader_epoch),
                serde=TransactionRecordSerde(),
                log=log,
                timers=timers,
                wall_clock=wall_clock,
                promises=promises,
                sender=MarkerSender(markers, spawn),
                publish=_log_remarks,
                write_timeout_ms=write_timeout_ms,
                compression=Compression.NONE,
                has_session=has_session,
            ),
            partition_count,
        )

    # Requests of producers

    def init_producer_id(
        self, request: InitProducerIdRequest, context: ClientContext
    ) -> Answer[InitProducerIdResponse]:
        """Answers InitProducerId with a transactional id."""
        refuse = partial(_refuse_init, context.api_version)
        if not self._partition_count:
            return refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not request.transactional_id:
            return refuse(request, ErrorCode.INVALID_REQUEST)
        if not 0 < request.transaction_timeout_ms <= self._config.max_timeout_ms:
            return refuse(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        if self._producer_ids.is_empty:
            return self._init_producer_id_later(request, context)
        return self._ask(request.transactional_id, TransactionShard.handle_init_producer_id, request, context, refuse)

    async def _init_producer_id_later(
        self, request: InitProducerIdRequest, context: ClientContext
    ) -> InitProducerIdResponse:
        await self._producer_ids.refill()
        answer = self.init_producer_id(request, context)
        return answer if isinstance(answer, InitProducerIdResponse) else await answer

    def add_partitions_to_txn(
        self, request: AddPartitionsToTxnTransaction, context: ClientContext
    ) -> Answer[AddPartitionsToTxnResult]:
        """Adds partitions to a transaction, for AddPartitionsToTxn or (with the group's partition) AddOffsetsToTxn.

        All partitions must exist. The version of AddPartitionsToTxn in `context` tells the sender: clients up to
        version 3, brokers from version 4.
        """
        refuse = partial(_refuse_addition, context.api_version)
        handle = TransactionShard.handle_add_partitions
        return self._ask(
            request.transactional_id, handle, request, context, refuse, empty_key=ErrorCode.INVALID_REQUEST
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Decides whether a broker may write for a transaction (KIP-890): yes for each partition with `ErrorCode.NONE`.

        With `verify_only` the producer must have added the partitions, otherwise they get TRANSACTION_ABORTABLE.
        Without it the partitions are added, as for clients of transaction version 2. A fenced producer gets
        INVALID_PRODUCER_EPOCH, the code that producers expect from the partitions that they write to. Of the other
        codes, CONCURRENT_TRANSACTIONS and the coordinator's codes are retriable. Without `verify_only`,
        CONCURRENT_TRANSACTIONS is returned only after `add_retry_max_ms`, in which the previous transaction could have
        ended. Raises nothing.
        """
        request = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=verify_only,
            topics=topics_of(partitions),
        )
        until_ms = self._timers.now_ms() + self._config.add_retry_max_ms
        while True:
            answer = self.add_partitions_to_txn(request, ClientContext("", "", _BROKERS_VERSION))
            result = answer if isinstance(answer, AddPartitionsToTxnResult) else await answer
            codes = {
                TopicPartition(topic.name, PartitionIndex(each.partition_index)): _as_producers_know_it(
                    ErrorCode(each.partition_error_code)
                )
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
            is_ending = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if verify_only or not is_ending or self._timers.now_ms() >= until_ms:
                return codes
            await self._pause(self._config.add_retry_ms)

    async def _pause(self, duration_ms: float) -> None:
        pause: Promise[bool] = self._promises.create_future()

        def end() -> None:
            if not pause.done():  # it is done if the waiting task was cancelled in this turn of the event loop
                pause.set_result(True)

        alarm = self._timers.call_at(self._timers.now_ms() + duration_ms, end)
        try:
            await pause
        finally:
            alarm.cancel()

    def end_txn(self, request: EndTxnRequest, context: ClientContext) -> Answer[EndTxnResponse]:
        """Answers EndTxn once the outcome is committed; the markers follow."""
        refuse = partial(_refuse_end, context.api_version)
        handle = TransactionShard.handle_end_txn
        return self._ask(
            request.transactional_id, handle, request, context, refuse, empty_key=ErrorCode.INVALID_REQUEST
        )

    # Requests of admin clients

    def describe_transactions(
        self, request: DescribeTransactionsRequest, context: ClientContext
    ) -> Answer[DescribeTransactionsResponse]:
        """Answers DescribeTransactions; the ids may belong to several partitions."""
        if not self._partition_count:
            return _refuse_description(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        parts = self._ask_each(
            request.transactional_ids,
            TransactionShard.handle_describe_transactions,
            lambda ids: DescribeTransactionsRequest(transactional_ids=ids),
            context,
            _refuse_description,
        )
        return then(parts, partial(_in_order, request))

    def transactional_ids(self, size: int) -> list[tuple[PartitionIndex, list[str]]]:
        """Returns the transactional ids that are known now, by partition and at most `size` at a time.

        A partition without transactional ids yields one empty slice.
        """
        return self._slices(lambda shard: shard.store.transactions, size)

    def list_transactions(
        self,
        request: ListTransactionsRequest,
        context: ClientContext,
        among: tuple[PartitionIndex, Sequence[str]] | None = None,
    ) -> Answer[ListTransactionsResponse]:
        """Answers ListTransactions for all partitions led here, or for the ids of one partition in `among`.

        The response has COORDINATOR_LOAD_IN_PROGRESS while a partition is loading. Raises INVALID_REGULAR_EXPRESSION.
        """

        def refuse(request: ListTransactionsRequest, code: ErrorCode) -> ListTransactionsResponse:
            # This broker does not lead the partition any more: the new leader lists it.
            return ListTransactionsResponse(error_code=0 if code is ErrorCode.NOT_COORDINATOR else code)

        if not self._partition_count:
            return refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        compile_pattern(request.transactional_id_pattern)
        if among is not None:
            handle = partial(TransactionShard.handle_list_transactions, among=among[1])
            return self._runtime.submit(among[0], handle, request, context, refuse)
        parts = self._ask_all(TransactionShard.handle_list_transactions, request, context, refuse)
        return then(parts, partial(merge_lists, request))


def _as_producers_know_it(code: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


def _for_version(code: ErrorCode, version: int, knows_fenced_from: int) -> ErrorCode:
    return _as_producers_know_it(code) if version < knows_fenced_from else coordinator_error(code)


def _refuse_init(version: int, request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
    code = _for_version(coordinator_error(code), version, _INIT_KNOWS_FENCED_FROM)
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _refuse_end(version: int, request: EndTxnRequest, code: ErrorCode) -> EndTxnResponse:
    code = _for_version(coordinator_error(code), version, _END_KNOWS_FENCED_FROM)
    return EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _refuse_addition(version: int, request: AddPartitionsToTxnTransaction, code: ErrorCode) -> AddPartitionsToTxnResult:
    code = _for_version(coordinator_error(code), version, _ADD_KNOWS_FENCED_FROM)
    return result_for(request.transactional_id, dict.fromkeys(partitions_of(request.topics), code))


def _refuse_description(request: DescribeTransactionsRequest, code: ErrorCode) -> DescribeTransactionsResponse:
    code = coordinator_error(code)
    states = [DescribedTransaction(transactional_id=each, error_code=code) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _in_order(
    request: DescribeTransactionsRequest, parts: Sequence[DescribeTransactionsResponse]
) -> DescribeTransactionsResponse:
    by_id = {state.transactional_id: state for part in parts for state in part.transaction_states}
    return DescribeTransactionsResponse(transaction_states=[by_id[each] for each in request.transactional_ids])


def merge_lists(
    request: ListTransactionsRequest, parts: Sequence[ListTransactionsResponse]
) -> ListTransactionsResponse:
    """Returns the transactions of all parts, or the first error among the parts."""
    for part in parts:
        if part.error_code:
            return ListTransactionsResponse(error_code=part.error_code)
    return ListTransactionsResponse(
        unknown_state_filters=unknown_states(request),
        transaction_states=[state for part in parts for state in part.transaction_states],
    )


def _log_remarks(partition: PartitionIndex, events: Sequence[object]) -> None:
    for event in events:
        remark = cast("TransactionRemark", event)
        level = logging.WARNING if remark.is_warning else logging.INFO
        _logger.log(level, "transactional id %s: %s", remark.transactional_id, remark.text)
