"""A transactional producer for conversations; its requests are not in the transcript."""

from __future__ import annotations

from typing import Any

from tests.interop.wire_conversations.batches import batch
from tests.interop.wire_conversations.peer import Topic
from tests.interop.wire_conversations.talk import Talk

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.schema.describe_transactions_response import DescribeTransactionsResponse
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.schema.produce_response import ProduceResponse

__all__ = ["TransactionalProducer"]

BEFORE_EPOCHS_RISE = 3
"""The version of EndTxn that ends a transaction without raising the producer's epoch."""


class TransactionalProducer:
    """A producer of transaction version 1, with an id and an epoch."""

    def __init__(self, talk: Talk, suffix: str = "producer") -> None:
        self._wire = talk.peer.wire
        self._until = talk.peer.until
        self.transactional_id = talk.name(suffix)
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)

        def is_inited() -> bool:
            response = self._wire.call(InitProducerIdResponse, 4, request)
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            return response.error_code == ErrorCode.NONE

        self._until(is_inited)
        self._sequences: dict[tuple[str, int], int] = {}

    @property
    def identity(self) -> dict[str, Any]:
        """The fields of a request that identify the producer."""
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add(self, topic: Topic, *partitions: int) -> None:
        """Adds partitions to the transaction."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic.name, partitions=list(partitions))],
        )

        def is_added() -> bool:
            (answer,) = self._wire.call(AddPartitionsToTxnResponse, 3, request).results_by_topic_v3_and_below
            return not any(each.partition_error_code for each in answer.results_by_partition)

        self._until(is_added)

    def add_offsets(self, group: str) -> None:
        """Adds the offsets of a group to the transaction."""
        request = AddOffsetsToTxnRequest(group_id=group, **self.identity)
        self._until(lambda: not self._wire.call(AddOffsetsToTxnResponse, 3, request).error_code)

    def batch(self, topic: Topic, *values: bytes, index: int = 0, **options: Any) -> bytes:
        """Returns the next batch of the transaction for a partition."""
        sequence = self._sequences.get((topic.name, index), 0)
        self._sequences[topic.name, index] = sequence + len(values)
        fields = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": sequence} | options
        return batch(*values, is_transactional=True, **fields)

    def append(self, topic: Topic, *values: bytes, index: int = 0) -> None:
        """Writes the next batch of the transaction to a partition."""
        data = PartitionProduceData(index=index, records=memoryview(self.batch(topic, *values, index=index)))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic.name, partition_data=[data])],
        )
        (answer,) = self._wire.call(ProduceResponse, 9, request).responses
        assert not answer.partition_responses[0].error_code, answer

    def end(self, *, committed: bool) -> None:
        """Ends the transaction, and waits until its markers are written."""
        request = EndTxnRequest(committed=committed, **self.identity)
        response = self._wire.call(EndTxnResponse, BEFORE_EPOCHS_RISE, request)
        assert not response.error_code, response
        self.wait_until_complete()

    def wait_until_complete(self) -> None:
        """Waits until the markers of the ended transaction are written."""
        describe = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])

        def is_complete() -> bool:
            (state,) = self._wire.call(DescribeTransactionsResponse, 0, describe).transaction_states
            return state.transaction_state.startswith("Complete")

        self._until(is_complete)
