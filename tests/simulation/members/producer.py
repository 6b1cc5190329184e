"""A transactional producer with a ledger: each transaction commits a number for partitions of two groups.

It follows the Java client's `TransactionManager`, for `sendOffsetsToTransaction`. With transaction version 1 it first
adds the groups of its commits; with version 2 the broker adds them (KIP-890). The producer crashes and comes back with
its transactional id, pauses for longer than the transaction timeout, and repeats requests when answers are lost. It has
zombies: requests with an earlier identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.disk import STATE_PARTITION
from tests.simulation.loop import Process
from tests.simulation.network import Call, Connection
from tests.simulation.plan import LEDGER_GROUPS, ProducerPlan

from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.txn_offset_commit_response import TxnOffsetCommitResponse

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.world import World

__all__ = ["PARTITIONS", "TransactionalProducer"]

PARTITIONS: Final = 2
_TIMEOUT_MS: Final = 4_000
_RETRY_MS: Final = 100
_NO_TRANSACTION: Final = 0
"""The number that an identity without any transaction commits: it must never become part of a transaction."""
_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_OVER: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class TransactionalProducer:
    """One producer, with all its restarts."""

    def __init__(self, world: World, plan: ProducerPlan) -> None:
        self._world = world
        self._loop = world.loop
        self._plan = plan
        self._process: Process | None = None
        self._producer = (-1, -1)
        self._former: list[tuple[int, int]] = []
        self._number = 0
        self._numbers: dict[tuple[int, int], int] = {}
        """The last transaction of each identity."""
        self._steps: Iterator[Message] = iter(())
        self._is_over = False

    # Start and stop

    def start(self) -> None:
        """Starts a new process, which knows only the transactional id."""
        if self._is_over or self._process is not None:
            return
        self._process = Process(self._loop)
        self._ask(
            InitProducerIdRequest(
                transactional_id=self._plan.transactional_id, transaction_timeout_ms=self._plan.timeout_ms
            )
        )

    def crash(self) -> None:
        """Kills the process, and schedules its restart."""
        if self._process is not None:
            self._process.kill()
            self._process = None
            self._loop.call_later(self._loop.between(100, 6_000), self.start)

    def pause(self) -> None:
        """Stops the process, possibly for longer than the transaction timeout."""
        process = self._process
        if process is not None and not process.is_stopped:
            process.stop()
            self._loop.call_later(self._loop.between(500, 12_000), process.go_on)

    def end(self) -> None:
        """Ends the producer for good, possibly in the middle of a transaction."""
        self._is_over = True
        self.crash()

    def haunt(self) -> None:
        """Sends requests with an earlier identity."""
        past = self._former[:-1]
        if not past:
            return
        producer = past[-1 - int(self._loop.random.random() ** 3 * len(past))]
        for _ in range(3):
            delay_ms = self._loop.between(0, 3_000)
            self._loop.call_later(delay_ms, partial(self._ask_as, producer))

    def _ask_as(self, producer: tuple[int, int]) -> None:
        # Until a marker comes, a partition in Kafka accepts more writes of the identity whose transaction is open
        # there, without a verification (UnifiedLog.maybeStartTransactionVerification). So the zombie commits the same
        # number again.
        number = self._numbers.get(producer, _NO_TRANSACTION)
        request = self._loop.random.choice(
            (partial(self._end, True), partial(self._end, False), partial(self._commit, 0, number))
        )
        self._send(request(producer=producer), lambda answer: None, Process(self._loop))

    # Requests

    def _end(self, is_commit: bool, *, producer: tuple[int, int]) -> Message:
        return EndTxnRequest(
            transactional_id=self._plan.transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=is_commit,
        )

    def _commit(
        self, group: int, number: int, *, producer: tuple[int, int], indexes: range = range(PARTITIONS)
    ) -> Message:
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=number) for index in indexes
        ]
        return TxnOffsetCommitRequest(
            transactional_id=self._plan.transactional_id,
            group_id=LEDGER_GROUPS[group],
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=self._plan.transactional_id, partitions=partitions)],
        )

    def _transaction(self) -> Iterator[Message]:
        """Yields the requests of one transaction, each after the answer to the previous one."""
        producer, loop = self._producer, self._loop
        number = self._number = self._world.checkers.transactions.begin(self._plan.transactional_id)
        self._numbers[producer] = number
        for group, group_id in enumerate(LEDGER_GROUPS):
            if not self._plan.is_version_2:
                yield AddOffsetsToTxnRequest(
                    transactional_id=self._plan.transactional_id,
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    group_id=group_id,
                )
            if loop.chance(0.5):
                yield self._commit(group, number, producer=producer)
            else:
                for index in range(PARTITIONS):
                    yield self._commit(group, number, producer=producer, indexes=range(index, index + 1))
        is_commit = loop.chance(0.75)
        self._world.checkers.transactions.on_end(number, is_commit)
        yield self._end(is_commit, producer=producer)

    def _version(self, request: Message) -> int:
        if isinstance(request, InitProducerIdRequest | AddOffsetsToTxnRequest):
            return 4
        return 5 if self._plan.is_version_2 else 4

    def _broker(self, request: Message) -> Broker | None:
        cluster = self._world.cluster
        if isinstance(request, TxnOffsetCommitRequest):
            return cluster.coordinator_of(request.group_id)
        return cluster.leader_of(STATE_PARTITION)

    def _send(self, request: Message, answered: Callable[[Message | None], None], process: Process) -> None:
        broker = self._broker(request)
        if broker is None or broker.process is None:
            self._loop.call_later(_RETRY_MS, partial(answered, None), process)
            return
        connection = Connection(self._world.network, self._plan.transactional_id, process, broker)
        broker.connect(connection)
        connection.send(Call(self._plan.transactional_id, request, self._version(request), answered))
        self._loop.call_later(_TIMEOUT_MS, connection.close, process)

    # Steps

    def _ask(self, request: Message) -> None:
        assert self._process is not None
        self._send(request, partial(self._answered, request), self._process)

    def _answered(self, request: Message, answer: Message | None) -> None:
        loop, process = self._loop, self._process
        if process is None:
            return
        codes = {ErrorCode.REQUEST_TIMED_OUT} if answer is None else set(_codes(answer))
        if codes == {ErrorCode.NONE}:
            assert answer is not None
            self._go_on(request, answer)
        elif codes <= _AGAIN | {ErrorCode.NONE}:
            loop.call_later(loop.between(_RETRY_MS, 5 * _RETRY_MS), partial(self._ask, request), process)
        else:
            unexpected = codes - _AGAIN - _OVER - {ErrorCode.NONE}
            for code in sorted(unexpected):
                self._world.expect_retriable("a transaction", code)
            self.crash()

    def _go_on(self, request: Message, answer: Message) -> None:
        if isinstance(answer, InitProducerIdResponse):
            self._take(answer.producer_id, answer.producer_epoch)
        elif isinstance(request, EndTxnRequest):
            assert isinstance(answer, EndTxnResponse)
            self._world.checkers.transactions.on_ended(self._number, request.committed)
            if self._plan.is_version_2:
                self._take(answer.producer_id, answer.producer_epoch)
        following = next(self._steps, None)
        if following is None:
            self._steps = self._transaction()
            self._loop.call_later(self._loop.between(0, 2_500), self._begin, self._process)
        else:
            self._loop.call_later(self._loop.between(0, 200), partial(self._ask, following), self._process)

    def _begin(self) -> None:
        self._ask(next(self._steps))

    def _take(self, producer_id: int, producer_epoch: int) -> None:
        self._producer = (producer_id, producer_epoch)
        self._former.append(self._producer)
        self._steps = iter(())


def _codes(answer: Message) -> Iterator[ErrorCode]:
    if isinstance(answer, TxnOffsetCommitResponse):
        for topic in answer.topics:
            for partition in topic.partitions:
                yield ErrorCode(partition.error_code)
    else:
        yield ErrorCode(getattr(answer, "error_code", ErrorCode.NONE))
