"""The producer id of a producer and the state of its transactions, without I/O.

The application's calls and the responses of the coordinators change the state; `next_request` returns the request to
send now, one at a time. Two protocols exist. In the first one the producer adds partitions and groups to the
transaction before it writes there. In the second one (KIP-890: the finalized feature `transaction.version` is 2 or
more) the brokers add them, and each transaction has an epoch of its own, which the response of EndTxn contains. Source
of the rules: `TransactionManager` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.client.config import Address
from klamm.client.conversation import Offers
from klamm.client.errors import RequestRefused
from klamm.client.producer.backoff import Backoff
from klamm.client.producer.batch import NO_IDENTITY, ProducerIdentity
from klamm.client.producer.coordinator_queue import CoordinatorQueue
from klamm.client.producer.errors import (
    InvalidTransactionCall,
    ProducerFailed,
    ProducerFenced,
    TransactionAborted,
    TransactionMustAbort,
)
from klamm.client.producer.outcome import Operation
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.producer_states import ProducerState, TransactionState
from klamm.client.producer.transaction_offsets import (
    AddOffsets,
    GroupMember,
    OffsetToCommit,
    TransactionalOffsetCommit,
)
from klamm.client.producer.transaction_requests import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    Priority,
    TransactionRequest,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.types import Millis, ProducerEpoch, TopicPartition

__all__ = ["GroupMember", "OffsetToCommit", "TransactionManager"]

_FEATURE: Final = "transaction.version"
_SECOND_PROTOCOL: Final = 2
_INIT_PRODUCER_ID: Final = 22
_RAISES_EPOCH_FROM: Final = 3
_HIGHEST_EPOCH: Final = 2**15 - 1
_NO_TIMEOUT_MS: Final = 2**31 - 1

_S = TransactionState


class TransactionManager(ProducerState):
    """The producer id, epoch and transaction of one producer; without a transactional id, only the id and epoch."""

    def __init__(self, config: ProducerConfig, backoff: Backoff) -> None:
        super().__init__(config.transactional_id)
        self.uses_v2 = False
        """Whether the present transaction is one of the second protocol."""
        self.is_started = False
        """Whether the coordinator may know the transaction, so that the transaction has to be ended there."""
        self._timeout_ms = config.transaction_timeout_ms
        self.requests = CoordinatorQueue(backoff)
        self._features_epoch = -1
        self._features_v2 = False
        self._coordinator_raises_epochs = False
        self._added: set[TopicPartition] = set()
        self._new: set[TopicPartition] = set()
        self._being_added: frozenset[TopicPartition] = frozenset()
        self._needs_new_epoch = False
        self._initialization: Operation | None = None
        self._ending: Operation | None = None
        """The commit or abort whose end the application has not seen yet."""
        self._ending_commits = False

    # Questions of the producer's machine (`machine.py`).

    def add_partition(self, topic_partition: TopicPartition) -> None:
        """Notes that a record for the partition belongs to the transaction."""
        if self.uses_v2:
            self.is_started = True
        elif topic_partition not in self._added and topic_partition not in self._being_added:
            self._new.add(topic_partition)

    def may_send_to(self, topic_partition: TopicPartition) -> bool:
        """Returns whether batches may be sent to the partition now."""
        if not self.is_transactional:
            return not self.has_failed
        if self.state not in (_S.IN_TRANSACTION, _S.COMMITTING):
            return False
        return self.uses_v2 or topic_partition in self._added

    # What the application calls.

    def initialize(self) -> Operation:
        """Requests a producer id for the transactional id. Returns the same operation while a request is in
        progress."""
        self.require_transactional()
        if self.state is _S.FATAL_ERROR:
            raise self.failure()
        if self._initialization is not None and not self._initialization.is_done:
            return self._initialization
        if self.state is not _S.UNINITIALIZED:
            raise self.misuse("initialize transactions")
        return self._request_identity(NO_IDENTITY)

    def request_identity(self) -> None:
        """Requests a producer id for an idempotent producer that has none."""
        if self.state is _S.UNINITIALIZED:
            self._request_identity(NO_IDENTITY)

    def when_ready(self) -> Operation | None:
        """Returns the operation that must end before a transaction may begin; None if there is none."""
        return self._initialization if self.state is _S.INITIALIZING else None

    def begin(self) -> None:
        """Begins a transaction."""
        self.require_transactional()
        if self._ending is not None and not self._ending.is_done:
            raise self.misuse("begin a transaction")
        if self._ending is not None and self._ending.error is None:
            done, name = ("committed", "commit") if self._ending_commits else ("aborted", "abort")
            raise InvalidTransactionCall(
                f"the last transaction was {done} after its caller had stopped waiting: call {name}_transaction again "
                "to learn that, then begin"
            )
        if self.state is _S.FATAL_ERROR:
            raise self.failure()
        if self.state is not _S.READY:
            raise self.misuse("begin a transaction")
        self.become(_S.IN_TRANSACTION)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group_id: str, member: GroupMember | None
    ) -> Operation:
        """Commits a group's offsets in the transaction."""
        self.require_transactional()
        if self.state is not _S.IN_TRANSACTION:
            raise self.failure() if self.has_failed else self.misuse("commit offsets in a transaction")
        assert self.transactional_id is not None
        operation = Operation(f"commit offsets of group {group_id!r} in the transaction")
        commit = TransactionalOffsetCommit(
            self.transactional_id,
            self.identity,
            offsets,
            group_id,
            member=member,
            operation=operation,
            uses_v2=self.uses_v2,
        )
        if self.uses_v2:
            self.is_started = True
            self.requests.add(commit)
        else:
            self.requests.add(AddOffsets(self.transactional_id, self.identity, commit))
        return operation

    def end_transaction(self, *, commits: bool) -> Operation:
        """Commits or aborts. Returns the same operation again until `seen` was called with it."""
        self.require_transactional()
        if self._ending is not None and self._ending_commits == commits and self._ending.error is None:
            return self._ending
        doing = "commit the transaction" if commits else "abort the transaction"
        if self.state is _S.FATAL_ERROR:
            raise self.failure()
        if self.state is not _S.IN_TRANSACTION and (commits or self.state is not _S.ABORTABLE_ERROR):
            raise self.misuse(doing)
        if not commits:
            self._new.clear()
            self._drop_queue(TransactionAborted("the transaction was aborted"))
        assert self.transactional_id is not None
        self.become(_S.COMMITTING if commits else _S.ABORTING)
        self.error = None
        self._ending, self._ending_commits = Operation(doing), commits
        self.requests.add(
            EndTransaction(self.transactional_id, self.identity, self._ending, commits=commits, uses_v2=self.uses_v2)
        )
        return self._ending

    def seen(self, operation: Operation) -> None:
        """Notes that the application knows the end of a commit or abort."""
        if operation is self._ending and operation.is_done:
            self._ending = None

    # Answers and events from the producer's machine.

    def offers_of(self, address: Address, offers: Offers) -> None:
        """Notes the broker's supported versions and features from the start of its connection."""
        if offers.finalized_features_epoch > self._features_epoch:
            self._features_epoch = offers.finalized_features_epoch
            self._features_v2 = offers.finalized_features.get(_FEATURE, 0) >= _SECOND_PROTOCOL
        if self.requests.has(address):
            self._coordinator_raises_epochs = offers.versions.get(_INIT_PRODUCER_ID, (0, 0))[1] >= _RAISES_EPOCH_FROM

    def next_request(self, now: Millis, *, has_unfinished_batches: bool) -> TransactionRequest | None:
        """Returns the request to send now; `sent`, or `retry`, follows. None if there is none, or it has to wait."""
        if self.requests.under_way is not None:
            return None
        if self._new and self.state in (_S.IN_TRANSACTION, _S.COMMITTING) and not self._being_added:
            self._being_added, self._new = frozenset(self._new), set()
            assert self.transactional_id is not None
            self.requests.add(AddPartitions(self.transactional_id, self.identity, self._being_added))
        while (request := self.requests.first()) is not None:
            if isinstance(request, EndTransaction):
                if has_unfinished_batches:
                    return None
                if not self.is_started:
                    self.requests.remove_first()
                    self.ended(request, None)
                    continue
            request = self.requests.with_coordinator(request)
            return request if request.not_before <= now else None
        return None

    def sent(self, request: TransactionRequest) -> None:
        """Notes that the request of `next_request` was sent."""
        assert self.requests.first() is request
        self.requests.under_way = self.requests.remove_first()

    def answered(self, request: TransactionRequest, answer: Message, now: Millis) -> None:
        """Applies the response to the request in progress."""
        assert self.requests.under_way is request
        self.requests.under_way, self.reason = None, ""
        if self.has_failed:
            request.end(self.failure())
        else:
            request.answered(self, answer, now)

    def disconnected(self, request: TransactionRequest, reason: str, now: Millis) -> None:
        """Repeats the request in progress, whose answer is lost, after the coordinator was found again."""
        assert self.requests.under_way is request
        self.requests.under_way = None
        if self.has_failed:
            request.end(self.failure())
            return
        request.may_be_applied = True
        self.requests.look_up(request.coordinator)
        request.repeat(self, reason, now)

    def raise_epoch(self) -> None:
        """Gives an idempotent producer its next epoch, or requests another producer id after the last one."""
        assert not self.is_transactional
        if self.identity.epoch < _HIGHEST_EPOCH:
            self.identity = self.identity._replace(epoch=ProducerEpoch(self.identity.epoch + 1))
        elif self.state is _S.READY:
            self.identity = NO_IDENTITY
            self.become(_S.UNINITIALIZED)
            self.request_identity()

    def batch_failed(self, error: Exception, code: ErrorCode | None, *, leaves_gap: bool) -> None:
        """Notes that a batch has finally failed; `code` is the broker's reason. `leaves_gap`: the batch had a sequence,
        which the next batch can't use.
        """
        if self.has_failed:
            return
        if code is ErrorCode.PRODUCER_FENCED:
            self._fail(ProducerFenced(self.transactional_id))
        elif code in (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ):
            self._fail(ProducerFailed(f"the producer can't continue: {error}"))
        elif self.is_transactional:
            self._needs_new_epoch = self._needs_new_epoch or leaves_gap
            if self.state in (_S.IN_TRANSACTION, _S.COMMITTING):
                self._abortable(TransactionMustAbort(f"the transaction must be aborted: {error}"), error)

    def fail(self, error: Exception) -> None:
        """Ends the producer: all later calls fail."""
        if not self.has_failed:
            self._fail(error)

    # What the responses call.

    def retry(self, request: TransactionRequest, now: Millis, pause_ms: Millis | None = None) -> None:
        """Repeats a request after a pause."""
        if self.is_ending_badly and not request.outlives_failure:
            request.end(self.unavailable())
            return
        self.requests.add_again(request, now, pause_ms)

    def initialized(self, request: InitProducerId, identity: ProducerIdentity) -> None:
        """Notes the producer id and epoch."""
        if self.identity == NO_IDENTITY:
            self.uses_v2 = self._features_v2
        self.identity = identity
        self.become(_S.READY)
        request.end()

    def not_initialized(self, request: InitProducerId, code: ErrorCode, doing: str) -> None:
        """Lets the application try again, because the coordinator may accept a later attempt."""
        self.become(_S.UNINITIALIZED)
        request.end(self._refusal(code, doing))

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """Notes that the coordinator has added the partitions."""
        self._added.update(partitions)
        self._being_added = frozenset()
        self.is_started = True

    def ended(self, request: EndTransaction, identity: ProducerIdentity | None) -> None:
        """Notes the end of the transaction, with the next one's identity in the second protocol."""
        used_v2, self.uses_v2 = self.uses_v2, self._features_v2
        if identity is not None:
            self.identity = identity
        # With the second protocol the coordinator has raised the epoch. A change to it needs a new epoch, too, so that
        # a late request of the first protocol can't join a transaction of the second.
        needs_new_epoch = (self._needs_new_epoch and identity is None) or (self.uses_v2 and not used_v2)
        self._needs_new_epoch = self.is_started = False
        self._added.clear()
        self._new.clear()
        self._being_added = frozenset()
        if not needs_new_epoch:
            self.become(_S.READY)
        elif self._coordinator_raises_epochs:
            self._request_identity(self.identity)
        else:
            self._fail(
                ProducerFailed(
                    "the transaction has ended, but the coordinator can't raise the epoch of a producer whose records "
                    "are lost (InitProducerId 3, Apache Kafka 2.5): close the producer and create another"
                )
            )
        request.end()

    def fenced(self, request: TransactionRequest) -> None:
        """Ends the producer, because another producer has its transactional id."""
        self._fail(ProducerFenced(self.transactional_id), request)

    def fatal(self, code: ErrorCode, doing: str, request: TransactionRequest) -> None:
        """Ends the producer after an error that leaves its state unknown."""
        cause = self._refusal(code, doing)
        error = ProducerFailed(f"the producer can't continue: {cause}")
        error.__cause__ = cause
        self._fail(error, request)

    def abortable(self, code: ErrorCode, doing: str, request: TransactionRequest) -> None:
        """Makes an abort the only way on."""
        cause = self._refusal(code, doing)
        error = TransactionMustAbort(f"the transaction must be aborted: {cause}")
        if self.state is _S.ABORTING and request.priority is not Priority.END:
            request.end(error)
            return
        if self.state not in (_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTABLE_ERROR):
            # An abort that can't be done leaves the transaction to the coordinator's timeout.
            self.fatal(code, doing, request)
            return
        request.end(error)
        self._abortable(error, cause)

    def abortable_if_possible(self, code: ErrorCode, doing: str, request: TransactionRequest) -> None:
        """Makes the transaction abortable if a new epoch follows the abort; otherwise the error is fatal."""
        if self._coordinator_raises_epochs or self.uses_v2:
            self._needs_new_epoch = True
            self.abortable(code, doing, request)
        else:
            self.fatal(code, doing, request)

    # Inside.

    def _request_identity(self, present: ProducerIdentity) -> Operation:
        self.become(_S.INITIALIZING)
        self._initialization = Operation("get a producer id")
        timeout_ms = self._timeout_ms if self.is_transactional else _NO_TIMEOUT_MS
        self.requests.add(InitProducerId(self.transactional_id, timeout_ms, present, self._initialization))
        return self._initialization

    def _abortable(self, error: Exception, cause: Exception) -> None:
        error.__cause__ = cause
        if self.state is not _S.ABORTABLE_ERROR:
            self.become(_S.ABORTABLE_ERROR)
            self.error = error
        self._drop_queue(error)

    def _fail(self, error: Exception, request: TransactionRequest | None = None) -> None:
        if not self.has_failed:
            self.become(_S.FATAL_ERROR)
            self.error = error
        self._drop_queue(error)
        if request is not None:
            request.end(error)

    def _drop_queue(self, error: Exception) -> None:
        """Ends the waiting requests. A request in progress ends by `retry` or its outcome, when it is answered."""
        self._being_added = frozenset()
        for request in self.requests.remove(
            lambda each: self.has_failed or not (each.starts_transaction and each.may_be_applied)
        ):
            request.end(error)

    def _refusal(self, code: ErrorCode, doing: str) -> RequestRefused:
        return RequestRefused(code, f"the cluster refused to {doing}")
