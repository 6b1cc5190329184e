"""Tests how a broker asks the coordinators of transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from tests.support.event_loop import in_loop
from tests.unit.broker.services.coordinators.peer_world import OWN, PeerWorld

from klamm.broker.services.coordinators.transaction_verifier import TransactionVerifier
from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from klamm.protocol.schema.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from klamm.protocol.types import PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

COORDINATORS = {"__transaction_state": [1, 2, 3]}
FIRST, SECOND = TopicPartition("a", PartitionIndex(0)), TopicPartition("a", PartitionIndex(1))

Codes = Mapping[TopicPartition, ErrorCode]


def response_to(request: Message, *codes: ErrorCode) -> AddPartitionsToTxnResponse:
    """Returns these codes for the partitions of each transaction of a request, the last one for the rest."""
    assert isinstance(request, AddPartitionsToTxnRequest)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=codes[min(index, len(codes) - 1)]
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in request.transactions
        ]
    )


class World(PeerWorld):
    """The verifier of broker 1. The last digit of a transactional id is its partition of the coordinators' topic."""

    def __init__(self, leaders: Mapping[str, Sequence[int]] = COORDINATORS) -> None:
        super().__init__(leaders)
        self.answer = lambda broker_id, request: response_to(request, ErrorCode.NONE)
        self.local: list[str] = []
        self.verifier = TransactionVerifier(
            OWN,
            cast(Any, self),
            self.peers,
            image=lambda: self.image,
            config=TransactionCoordinatorConfig(add_retry_ms=0, add_retry_max_ms=60_000),
            spawn=self.spawn,
        )

    def partition_for(self, transactional_id: str) -> PartitionIndex:
        """Implements the method of the local coordinator."""
        return PartitionIndex(int(transactional_id[-1]))

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Codes:
        """Implements the method of the local coordinator."""
        self.local.append(transactional_id)
        return dict.fromkeys(partitions, ErrorCode.NONE)

    async def ask(self, transactional_id: str, *, verify_only: bool = True) -> Codes:
        """Asks about two partitions."""
        return await self.verifier.add_partitions(
            transactional_id, ProducerId(7), ProducerEpoch(3), [FIRST, SECOND], verify_only=verify_only
        )

    def sent(self) -> list[tuple[int, list[str]]]:
        """Returns the requests: the broker, and the transactional ids."""
        return [
            (broker_id, [each.transactional_id for each in request.transactions])
            for broker_id, request in self.requests
            if isinstance(request, AddPartitionsToTxnRequest)
        ]


@in_loop
async def test_each_coordinator_is_asked() -> None:
    """The coordinator leads the partition of the transactional id: this broker, or another one, with all facts."""
    world = World()
    for number in range(3):
        assert await world.ask(f"id-{number}") == {FIRST: ErrorCode.NONE, SECOND: ErrorCode.NONE}
    assert world.local == ["id-0"]
    assert world.sent() == [(2, ["id-1"]), (3, ["id-2"])]
    request = world.requests[0][1]
    assert isinstance(request, AddPartitionsToTxnRequest)
    (sent,) = request.transactions
    assert (sent.producer_id, sent.producer_epoch, sent.verify_only) == (7, 3, True)
    assert [(topic.name, topic.partitions) for topic in sent.topics] == [("a", [0, 1])]


@in_loop
async def test_questions_of_several_producers_travel_together() -> None:
    """Questions at the same time for one coordinator are in one request; two of one transactional id are in two."""
    world = World()
    await asyncio.gather(world.ask("id-1"), world.ask("other-1"), world.ask("id-1"))
    assert world.sent() == [(2, ["id-1", "other-1"]), (2, ["id-1"])]


@in_loop
async def test_the_codes_that_producers_know() -> None:
    """A fenced producer gets INVALID_PRODUCER_EPOCH; other codes of the coordinator are passed on."""
    world = World()
    world.answer = lambda broker_id, request: response_to(
        request, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE
    )
    assert await world.ask("id-1") == {
        FIRST: ErrorCode.INVALID_PRODUCER_EPOCH,
        SECOND: ErrorCode.TRANSACTION_ABORTABLE,
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_refused_request(code: ErrorCode, expected: ErrorCode) -> None:
    """The code of the whole request applies to each partition; producers do not see that brokers lack permission."""

    async def scenario() -> None:
        world = World()
        world.answer = lambda broker_id, request: AddPartitionsToTxnResponse(error_code=code)
        assert await world.ask("id-1") == {FIRST: expected, SECOND: expected}

    asyncio.run(scenario())


@in_loop
async def test_a_coordinator_that_does_not_answer() -> None:
    """A broken connection is NETWORK_EXCEPTION, a coordinator that is not live COORDINATOR_NOT_AVAILABLE."""
    world = World()
    world.answer = lambda broker_id, request: None
    assert set((await world.ask("id-1")).values()) == {ErrorCode.NETWORK_EXCEPTION}
    world.show(COORDINATORS, live=(1, 3))
    assert set((await world.ask("id-1")).values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(world.requests) == 1


@in_loop
async def test_an_addition_waits_for_the_previous_transaction() -> None:
    """While the previous transaction ends, an addition is tried again for a while. A verification is not."""
    world = World()
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
    world.answer = lambda broker_id, request: response_to(request, codes.pop(0))
    assert set((await world.ask("id-1")).values()) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert set((await world.ask("id-1", verify_only=False)).values()) == {ErrorCode.NONE}
    assert not codes


@in_loop
async def test_without_a_topic_of_coordinators() -> None:
    """Before the first transaction of the cluster, the local coordinator refuses, as on a single broker."""
    world = World({})
    await world.ask("id-1")
    assert world.local == ["id-1"]
