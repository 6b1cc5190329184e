"""The requests of a producer except Produce: each class builds one request and interprets its response. An object holds
its request until the request has a final answer. `TransactionManager` sends one at a time. Source of the meanings: the
handlers in `TransactionManager` of Apache Kafka 4.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from klamm.client.cluster_view import error_code
from klamm.client.coordinator import TRANSACTION, coordinator_request
from klamm.client.producer.batch import ProducerIdentity
from klamm.client.producer.outcome import Operation
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.types import Millis, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    from klamm.client.producer.transactions import TransactionManager

__all__ = [
    "ABORTABLE",
    "CONCURRENT_TRANSACTIONS_PAUSE_MS",
    "MOVED",
    "AddPartitions",
    "CoordinatorKey",
    "EndTransaction",
    "FindCoordinator",
    "InitProducerId",
    "Priority",
    "TransactionRequest",
]

CoordinatorKey = tuple[int, str]
"""Kind of coordinator (`GROUP` or `TRANSACTION`), and the group or transactional id."""

# Version caps of the first transaction protocol; the next version of each belongs to the second one (KIP-890).
_HIGHEST_V1_END_TXN: Final = 4
# From version 4 on, AddPartitionsToTxn is a request between brokers.
_HIGHEST_ADD_PARTITIONS: Final = 3
# The markers of the previous transaction are still being written, so the wait is short (KAFKA-5482).
CONCURRENT_TRANSACTIONS_PAUSE_MS: Final = Millis(20)

MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
ABORTABLE: Final = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.GROUP_AUTHORIZATION_FAILED})
_FATAL_FOR_PARTITIONS: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class Priority(IntEnum):
    """The order of requests that wait at the same time."""

    FIND_COORDINATOR = 0
    INIT_PRODUCER_ID = 1
    ADD = 2
    END = 3


class TransactionRequest(ABC):
    """Base class: one request, and the operation of the application that waits for it, if any."""

    priority = Priority.ADD
    starts_transaction = False
    """Whether the coordinator begins the transaction with this request, if it has not begun."""
    highest_version: int | None = None
    """The highest version that may be used; None is the highest that both sides know."""
    message: type[Message]
    """The request's class."""
    answer: type[Message]
    """The response's class."""

    def __init__(self, coordinator: CoordinatorKey | None, operation: Operation | None = None) -> None:
        self.coordinator = coordinator
        """The coordinator to which the request is sent; None stands for any broker."""
        self.operation = operation
        self.not_before: float = 0
        self.may_be_applied = False
        """Whether the answer to an attempt was lost."""
        self.attempts = 0

    @property
    def outlives_failure(self) -> bool:
        """Whether the request is repeated although its transaction will be aborted. A request without an answer may
        have started the transaction at the coordinator, and the abort must know whether it did: the coordinator refuses
        to end a transaction that has not begun, and a transaction that has begun and is not aborted would time out and
        fence the producer.
        """
        return self.priority is not Priority.ADD or (self.starts_transaction and self.may_be_applied)

    @abstractmethod
    def build(self, version: int) -> Message:
        """Returns the request."""

    @abstractmethod
    def answered(self, manager: TransactionManager, answer: Message, now: Millis) -> None:
        """Applies the response."""

    def end(self, error: Exception | None = None) -> None:
        """Ends the operation that waits for the request."""
        if self.operation is not None:
            self.operation.end(error)

    def repeat(self, manager: TransactionManager, reason: str, now: Millis, pause_ms: Millis | None = None) -> None:
        """Sends the request again after a pause; notes why."""
        manager.reason = reason
        manager.retry(self, now, pause_ms)

    def refused(self, manager: TransactionManager, code: ErrorCode, doing: str, now: Millis) -> None:
        """Applies an error that most of these APIs share; `doing` is for its message."""
        if code in MOVED:
            manager.requests.look_up(self.coordinator)
            self.repeat(manager, code.name, now)
        elif code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self.repeat(manager, code.name, now, CONCURRENT_TRANSACTIONS_PAUSE_MS)
        elif code.retriable:
            self.repeat(manager, code.name, now)
        elif code in _FENCED:
            manager.fenced(self)
        elif code is ErrorCode.UNKNOWN_PRODUCER_ID:
            manager.abortable_if_possible(code, doing, self)
        elif code in ABORTABLE:
            manager.abortable(code, doing, self)
        else:
            manager.fatal(code, doing, self)


class FindCoordinator(TransactionRequest):
    """Finds the coordinator of a transactional id or of a group."""

    priority = Priority.FIND_COORDINATOR
    message = FindCoordinatorRequest
    answer = FindCoordinatorResponse

    def __init__(self, key: CoordinatorKey) -> None:
        super().__init__(None)
        self.key = key

    def build(self, version: int) -> Message:
        """Returns the request."""
        return coordinator_request(self.key[1], self.key[0], version)

    def answered(self, manager: TransactionManager, answer: Message, now: Millis) -> None:
        """Notes the coordinator's address."""
        assert isinstance(answer, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        code = error_code(found.error_code)
        kind, name = self.key
        if code is ErrorCode.NONE:
            manager.requests.found(self.key, (found.host, found.port))
        else:
            subject = f"transactional id {name!r}" if kind == TRANSACTION else f"group {name!r}"
            if code in MOVED:
                self.repeat(manager, f"{code.name} for the {subject}", now)
            else:
                self.refused(manager, code, f"find the coordinator of {subject}", now)


class InitProducerId(TransactionRequest):
    """Gets a producer id, or raises the epoch of the present one (KIP-360)."""

    priority = Priority.INIT_PRODUCER_ID
    message = InitProducerIdRequest
    answer = InitProducerIdResponse

    def __init__(
        self,
        transactional_id: str | None,
        transaction_timeout_ms: int,
        present: ProducerIdentity,
        operation: Operation | None,
    ) -> None:
        super().__init__(None if transactional_id is None else (TRANSACTION, transactional_id), operation)
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._present = present

    def build(self, version: int) -> Message:
        """Returns the request."""
        return InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            producer_id=self._present.producer_id,
            producer_epoch=self._present.epoch,
        )

    def answered(self, manager: TransactionManager, answer: Message, now: Millis) -> None:
        """Notes the identity."""
        assert isinstance(answer, InitProducerIdResponse)
        code = error_code(answer.error_code)
        doing = "get a producer id"
        if code is ErrorCode.NONE:
            identity = ProducerIdentity(ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch))
            manager.initialized(self, identity)
        elif self._transactional_id is not None and code in (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.TRANSACTION_ABORTABLE,
        ):
            manager.not_initialized(self, code, doing)
        else:
            self.refused(manager, code, doing, now)


class AddPartitions(TransactionRequest):
    """Adds partitions to the transaction, in the first transaction protocol."""

    starts_transaction = True
    highest_version = _HIGHEST_ADD_PARTITIONS
    message = AddPartitionsToTxnRequest
    answer = AddPartitionsToTxnResponse

    def __init__(self, transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]) -> None:
        super().__init__((TRANSACTION, transactional_id))
        self._transactional_id = transactional_id
        self._identity = identity
        self.partitions = frozenset(partitions)

    def build(self, version: int) -> Message:
        """Returns the request."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            topics.setdefault(topic, []).append(partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )

    def answered(self, manager: TransactionManager, answer: Message, now: Millis) -> None:
        """Allows batches to be sent to the partitions, once all of them are added."""
        assert isinstance(answer, AddPartitionsToTxnResponse)
        refused: dict[TopicPartition, ErrorCode] = {}
        for topic in answer.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                if (code := error_code(each.partition_error_code)) is not ErrorCode.NONE:
                    refused[TopicPartition(topic.name, PartitionIndex(each.partition_index))] = code
        doing = f"add {', '.join(map(str, sorted(refused or self.partitions)))} to the transaction"
        if not refused:
            manager.added(self.partitions)
            return
        for code in refused.values():
            if code.retriable or code in _FENCED or code in ABORTABLE or code in _FATAL_FOR_PARTITIONS:
                self.refused(manager, code, doing, now)
                return
        # The errors of partitions that were not attempted do not contain the reason.
        code = max(refused.values(), key=lambda code: code is not ErrorCode.OPERATION_NOT_ATTEMPTED)
        manager.abortable(code, doing, self)


class EndTransaction(TransactionRequest):
    """Commits or aborts (EndTxn). In the second transaction protocol the response has the epoch of the next one."""

    priority = Priority.END
    message = EndTxnRequest
    answer = EndTxnResponse

    def __init__(
        self, transactional_id: str, identity: ProducerIdentity, operation: Operation, *, commits: bool, uses_v2: bool
    ) -> None:
        super().__init__((TRANSACTION, transactional_id), operation)
        self.commits = commits
        self.highest_version = None if uses_v2 else _HIGHEST_V1_END_TXN
        self._transactional_id = transactional_id
        self._identity = identity

    def build(self, version: int) -> Message:
        """Returns the request. The request is the same in each attempt, so that the coordinator recognizes a
        repetition."""
        return EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=self.commits,
        )

    def answered(self, manager: TransactionManager, answer: Message, now: Millis) -> None:
        """Ends the transaction."""
        assert isinstance(answer, EndTxnResponse)
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            identity = None
            if answer.producer_id != -1:
                identity = ProducerIdentity(ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch))
            manager.ended(self, identity)
        else:
            self.refused(manager, code, f"{'commit' if self.commits else 'abort'} the transaction", now)
