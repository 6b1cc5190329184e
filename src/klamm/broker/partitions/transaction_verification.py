"""Asks the transaction coordinator before the first batch of a transaction is appended to a partition (KIP-890).

Without this check, a batch that arrives after the end of its transaction would open a transaction that never ends.
For producers of transaction version 2 the broker adds the partition to the transaction. For older producers it only
verifies that the producer has added the partition.

Source: Kafka 4.3's `ReplicaManager.maybeSendPartitionsToTransactionCoordinator` and `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from klamm.core.log.batch_validation import read_single_batch
from klamm.core.log.transaction_verification import NO_GUARD, UNVERIFIED
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.services.coordinators.transaction_verifier import AddsPartitions
    from klamm.protocol.produce import ProduceTopic
    from klamm.protocol.record_batch import BatchHeader
    from klamm.protocol.types import TopicId

__all__ = [
    "FIRST_VERSION_THAT_ADDS_PARTITIONS",
    "TransactionVerification",
    "code_for_producer",
    "find_absent",
    "find_transactional",
]

FIRST_VERSION_THAT_ADDS_PARTITIONS: Final = 12
"""Version of Produce from which on producers use transaction version 2."""
_ABORTABLE_IS_KNOWN_FROM: Final = 11
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionVerification:
    """The verification of one producer's batches in one request.

    With `adds_partitions`, the coordinator adds the partitions to the transaction; otherwise it only verifies them.
    `is_enabled` is `transaction.partition.verification.enable`, which does not apply to additions.
    """

    def __init__(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        *,
        adds_partitions: bool,
        is_enabled: bool,
        now_ms: Millis,
    ) -> None:
        self.errors: dict[TopicPartition, ErrorCode] = {}
        """Error codes of the partitions that cannot be written."""
        self.guards: dict[TopicPartition, int] = {}
        """Guards for the append, for the partitions that need the coordinator's approval."""
        self.absent: Mapping[str | TopicId | None, Mapping[int, ErrorCode]] = {}
        """Error codes of the partitions that this broker did not lead when the verification began, by the topic's name
        or id in the request. The coordinator was not asked about them, so they stay refused if this broker leads them
        by now."""
        self._transactional_id = transactional_id
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._adds_partitions = adds_partitions
        self._is_enabled = is_enabled or adds_partitions
        self._now_ms = now_ms

    def begin(self, partition: Partition, sequence: int) -> None:
        """Begins the verification of a batch whose first record has that sequence."""
        if not self._is_enabled:
            return
        topic_partition = TopicPartition(partition.topic, partition.index)
        try:
            guard = partition.log.transactions.begin_verification(
                self._producer_id,
                self._producer_epoch,
                sequence,
                adds_partitions=self._adds_partitions,
                now_ms=self._now_ms,
            )
        except KafkaError as error:
            self.errors[topic_partition] = error.code
        else:
            if guard != NO_GUARD:
                self.guards[topic_partition] = guard

    async def ask(self, coordinators: AddsPartitions) -> None:
        """Asks the coordinator about all partitions with a guard. Adds the refused partitions to `errors`."""
        codes = await coordinators.add_partitions(
            self._transactional_id,
            self._producer_id,
            self._producer_epoch,
            list(self.guards),
            verify_only=not self._adds_partitions,
        )
        self.errors |= {partition: code for partition, code in codes.items() if code is not ErrorCode.NONE}

    def guard(self, topic_partition: TopicPartition) -> int:
        """Returns the guard for an append to a partition that has no error."""
        return self.guards.get(topic_partition, NO_GUARD) if self._is_enabled else UNVERIFIED


def find_transactional(
    partitions: PartitionRegistry, topics: Sequence[ProduceTopic]
) -> Iterator[tuple[Partition, BatchHeader]]:
    """Yields the batches of a Produce request that belong to a transaction, with their partitions.

    Skips batches that are refused anyway (unknown partition, not a single batch).
    """
    for topic in topics:
        led = (
            partitions.by_name.get(topic.name or "") if topic.topic_id is None else partitions.by_id.get(topic.topic_id)
        )
        if led is None:
            continue
        for index, records in topic.partitions:
            try:
                partition = led.get(index)
                header = read_single_batch(records or b"")
            except KafkaError:
                continue
            if header.is_transactional and header.has_producer_id:
                yield partition, header


def find_absent(
    partitions: PartitionRegistry, topics: Sequence[ProduceTopic]
) -> dict[str | TopicId | None, dict[int, ErrorCode]]:
    """Returns the error codes of the partitions of a Produce request that this broker does not lead now, by the topic's
    name or id in the request."""
    absent: dict[str | TopicId | None, dict[int, ErrorCode]] = {}
    for topic in topics:
        key = topic.name if topic.topic_id is None else topic.topic_id
        if topic.topic_id is None:
            led, unknown = partitions.by_name.get(topic.name or ""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            led, unknown = partitions.by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        for index, _ in topic.partitions:
            if led is None:
                absent.setdefault(key, {})[index] = unknown
                continue
            try:
                led.get(index)
            except KafkaError as error:
                absent.setdefault(key, {})[index] = error.code
    return absent


def code_for_producer(code: ErrorCode, version: int) -> tuple[ErrorCode, str | None]:
    """Returns the error code and message that a producer gets for a refused partition, in that version of Produce.

    Producers don't expect the codes of coordinators. NOT_ENOUGH_REPLICAS makes them retry without looking for another
    leader.
    """
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_IS_KNOWN_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return code, "Partition was not added to the transaction"
    if code in _TRY_AGAIN or (
        code is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_VERSION_THAT_ADDS_PARTITIONS
    ):
        return (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return code, None
