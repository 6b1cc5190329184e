"""A transactional producer whose requests are the steps of a script, and the records that readers of committed records
get."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from tests.differential.records import batch, fetch_fields, produce_fields
from tests.differential.script import Run

from klamm.protocol.api import ApiKey
from klamm.protocol.control_batch import (
    EndTransactionMarker,
    encode_end_transaction_marker,
    read_end_transaction_marker,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.record_batch import iterate_batches, restamp
from klamm.protocol.records import decode_batch
from klamm.protocol.types import Millis, ProducerEpoch, ProducerId

__all__ = ["Producer", "read_committed", "wait_for_end"]

_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_EXPLICIT: Final = {ApiKey.PRODUCE: 11, ApiKey.END_TXN: 4, ApiKey.INIT_PRODUCER_ID: 4}
"""The newest versions of the protocol in which the producer adds partitions itself, before KIP-890."""


class Producer:
    """A producer with one transactional id. `coordinator` is the broker that it sends to, unless a step has another."""

    def __init__(self, run: Run, coordinator: int, *, is_explicit: bool) -> None:
        """`is_explicit` is true for a producer that adds partitions with AddPartitionsToTxn."""
        self.coordinator = coordinator
        self.epoch = -1
        self._run = run
        self._versions = _EXPLICIT if is_explicit else {}
        self._id = -1
        self._sequences: Counter[tuple[str, int]] = Counter()

    def begin(self, label: str, *, broker: int | None = None) -> None:
        """Asks for an id and an epoch, as a new instance of the producer, until no transaction is being ended."""
        answer = self._run.ask_until(
            label,
            _is_decided,
            ApiKey.INIT_PRODUCER_ID,
            broker=broker or self.coordinator,
            version=self._versions.get(ApiKey.INIT_PRODUCER_ID),
            transactional_id=self._run.name,
            transaction_timeout_ms=600_000,
        )
        if not answer.error_code:
            self._id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()

    def add(self, label: str, topic: str, *indexes: int, broker: int | None = None, epoch: int | None = None) -> None:
        """Adds partitions to the transaction."""
        self._run.ask_until(
            label,
            lambda answer: _is_decided_code(
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
            ApiKey.ADD_PARTITIONS_TO_TXN,
            broker=broker or self.coordinator,
            v3_and_below_transactional_id=self._run.name,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self.epoch if epoch is None else epoch,
            v3_and_below_topics=[{"name": topic, "partitions": list(indexes)}],
        )

    def write(
        self,
        label: str,
        topic: str,
        value: bytes,
        *,
        broker: int,
        index: int = 0,
        epoch: int | None = None,
        sequence: int | None = None,
    ) -> None:
        """Writes a record in the transaction. A given `sequence` is that of a batch that was sent before, or too late.

        The leader may still wait for the markers of the transaction before.
        """
        key = (topic, index)
        records = batch(
            value,
            producer_id=self._id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=self._sequences[key] if sequence is None else sequence,
            is_transactional=True,
        )
        fields = produce_fields(topic, records, index=index) | {"transactional_id": self._run.name}
        answer = self._run.ask_until(
            label,
            lambda answer: _is_decided(_of_partition(answer)),
            ApiKey.PRODUCE,
            broker=broker,
            version=self._versions.get(ApiKey.PRODUCE),
            **fields,
        )
        if sequence is None and not _of_partition(answer).error_code:
            self._sequences[key] += 1

    def end(self, label: str, *, commits: bool, broker: int | None = None, epoch: int | None = None) -> None:
        """Ends the transaction. The answer may have a new epoch (KIP-890), in which sequences begin at 0."""
        answer = self._run.ask_until(
            label,
            _is_decided,
            ApiKey.END_TXN,
            broker=broker or self.coordinator,
            version=self._versions.get(ApiKey.END_TXN),
            transactional_id=self._run.name,
            producer_id=self._id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commits,
        )
        if not self._versions and not answer.error_code and answer.producer_epoch != self.epoch:
            self._id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()

    def describe(self, label: str, *, broker: int | None = None, state: str | None = None) -> None:
        """Describes the transaction, as soon as it is in a state."""
        self._run.ask_until(
            label,
            lambda answer: state is None or answer.transaction_states[0].transaction_state == state,
            ApiKey.DESCRIBE_TRANSACTIONS,
            broker=broker or self.coordinator,
            transactional_ids=[self._run.name],
        )


def _is_decided(answer: Any) -> bool:
    """Returns whether an answer is not one of those that a coordinator or a leader gives while it ends a transaction,
    or has not heard of the next coordinator."""
    return _is_decided_code(answer.error_code)


def _is_decided_code(code: int) -> bool:
    return code not in (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    )


def _of_partition(answer: Any) -> Any:
    return answer.responses[0].partition_responses[0]


def wait_for_end(run: Run, topic: str, end: int, *, broker: int, index: int = 0) -> None:
    """Waits until readers of committed records may read up to an offset."""

    def is_there() -> bool:
        wanted = {"partition_index": index, "timestamp": -1}
        topics = [{"name": topic, "partitions": [wanted]}]
        answer = run.call(
            ApiKey.LIST_OFFSETS, broker=broker, replica_id=_CONSUMER, isolation_level=_READ_COMMITTED, topics=topics
        )
        found: int = answer.topics[0].partitions[0].offset
        return found == end

    run.wait_for(is_there)


def read_committed(run: Run, label: str, topic: str, *, broker: int, index: int = 0) -> None:
    """Fetches a partition as a reader of committed records.

    The markers have a coordinator epoch, which depends on what the cluster did before; it is 0 in the record.
    """
    fields = fetch_fields(topic, partition=index) | {"isolation_level": _READ_COMMITTED}
    answer = run.call(ApiKey.FETCH, broker=broker, **fields)
    (partition,) = answer.responses[0].partitions
    if partition.records is not None:
        partition.records = memoryview(_without_coordinator_epochs(memoryview(partition.records)))
    run.record(label, ApiKey.FETCH, answer)


def _without_coordinator_epochs(records: memoryview) -> bytes:
    batches = []
    for position, header in iterate_batches(records):
        whole = bytes(records[position : position + header.size_bytes])
        if header.is_control:
            (record,) = decode_batch(whole)
            marker = read_end_transaction_marker(record)
            assert marker is not None
            written = encode_end_transaction_marker(
                EndTransactionMarker(marker.is_commit, 0),
                producer_id=ProducerId(header.producer_id),
                producer_epoch=ProducerEpoch(header.producer_epoch),
                timestamp_ms=Millis(header.base_timestamp),
            )
            whole = b"".join(restamp(written, header.base_offset, header.partition_leader_epoch))
        batches.append(whole)
    return b"".join(batches)
