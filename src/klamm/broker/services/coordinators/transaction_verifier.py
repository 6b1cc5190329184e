"""Asks the coordinator of a transactional id whether a broker may write for a transaction (KIP-890).

The coordinator leads the id's partition of `__transaction_state`: this broker, or another one, which is asked with
AddPartitionsToTxn. At most one request is in flight to a broker, with the questions of all its producers.

Source: Apache Kafka's `AddPartitionsToTxnManager` and `ReplicaManager.handleProduceAppend` (4.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from klamm.broker.services.peers.peer_batches import PeerBatches
from klamm.broker.services.peers.peers import Peers, PeerUnavailable
from klamm.core.txn.additions import topics_of
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topic_names import TRANSACTIONS_TOPIC
from klamm.protocol.schema.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResponse, AddPartitionsToTxnResult
from klamm.protocol.types import BrokerId, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
    from klamm.metadata.image import MetadataImage
    from klamm.runtime.ports import Spawn
    from klamm.runtime.transaction_coordinator import TransactionCoordinator

__all__ = ["AddsPartitions", "TransactionVerifier"]

Codes = Mapping[TopicPartition, ErrorCode]

_TRANSACTIONS_AT_ONCE: Final = 1000
"""Maximum number of transactions in one request."""


class AddsPartitions(Protocol):
    """Decides for a broker whether it may write for a transaction."""

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Codes:
        """Returns a code for each partition, as `TransactionCoordinator.add_partitions` documents. Raises nothing."""


class TransactionVerifier:
    """Finds the coordinators of transactions, and asks them. `image` returns the current metadata."""

    def __init__(
        self,
        node_id: BrokerId,
        local: TransactionCoordinator,
        peers: Peers,
        *,
        image: Callable[[], MetadataImage],
        config: TransactionCoordinatorConfig,
        spawn: Spawn,
    ) -> None:
        """Creates the verifier. `local` is the coordinator of this broker."""
        self._node_id = node_id
        self._local = local
        self._peers = peers
        self._image = image
        self._config = config
        self._batches: PeerBatches[str, AddPartitionsToTxnTransaction, Codes] = PeerBatches(
            self._send, spawn, maximum_entries=_TRANSACTIONS_AT_ONCE
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Codes:
        """Implements `AddsPartitions`.

        In addition to the coordinator's codes: COORDINATOR_NOT_AVAILABLE if the coordinator is not live,
        NETWORK_EXCEPTION if it does not answer, INVALID_TXN_STATE if it does not trust this broker.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._config.add_retry_max_ms / 1000
        while True:
            coordinator = self._coordinator_of(transactional_id)
            if coordinator is None:
                return await self._local.add_partitions(
                    transactional_id, producer_id, producer_epoch, partitions, verify_only=verify_only
                )
            if not self._peers.is_reachable(coordinator):
                return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            question = AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=verify_only,
                topics=topics_of(partitions),
            )
            try:
                codes = await self._batches.ask(coordinator, transactional_id, question)
            except PeerUnavailable:
                return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
            is_ending = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if verify_only or not is_ending or loop.time() >= until_s:
                return codes
            await asyncio.sleep(self._config.add_retry_ms / 1000)

    def _coordinator_of(self, transactional_id: str) -> BrokerId | None:
        """Returns the other broker that coordinates the id; None if this broker does, or if there is none yet."""
        topic = self._image().topics.get(TRANSACTIONS_TOPIC)
        if topic is None or not transactional_id:
            return None
        leader = topic.partitions[self._local.partition_for(transactional_id)].leader
        return None if leader == self._node_id else leader

    async def _send(
        self, broker_id: BrokerId, questions: Mapping[str, AddPartitionsToTxnTransaction]
    ) -> Mapping[str, Codes]:
        request = AddPartitionsToTxnRequest(transactions=list(questions.values()))
        response = await self._peers.request(broker_id, request, AddPartitionsToTxnResponse)
        if response.error_code:
            # Producers don't expect CLUSTER_AUTHORIZATION_FAILED.
            code = _code(response.error_code)
            refusal = ErrorCode.INVALID_TXN_STATE if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else code
            return {
                transactional_id: dict.fromkeys(_partitions_in(question), refusal)
                for transactional_id, question in questions.items()
            }
        results = {result.transactional_id: _codes_in(result) for result in response.results_by_transaction}
        return {
            transactional_id: {
                each: results.get(transactional_id, {}).get(each, ErrorCode.UNKNOWN_SERVER_ERROR)
                for each in _partitions_in(question)
            }
            for transactional_id, question in questions.items()
        }


def _partitions_in(question: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, PartitionIndex(index)) for topic in question.topics for index in topic.partitions
    ]


def _codes_in(result: AddPartitionsToTxnResult) -> Codes:
    return {
        TopicPartition(topic.name, PartitionIndex(each.partition_index)): _code(each.partition_error_code)
        for topic in result.topic_results
        for each in topic.results_by_partition
    }


def _code(number: int) -> ErrorCode:
    try:
        code = ErrorCode(number)
    except ValueError:  # a later version has codes that this one does not know
        return ErrorCode.UNKNOWN_SERVER_ERROR
    # Producers expect this code from the partitions that they write to.
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
