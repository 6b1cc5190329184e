"""The batches of one partition in their order, and the rule that decides which batch may be sent next.

An idempotent producer numbers the records of a partition. The broker writes a batch only if it continues these numbers,
and recognizes duplicates of the last five batches. So a batch keeps its sequence in all attempts. If a batch has to be
sent again, the batches after it wait. Kafka's producer gives the remaining batches new sequences as soon as one batch
has failed. A lane instead waits until each earlier batch has an outcome and no batch is in flight. Otherwise a batch
whose answer was lost could be written again under its new sequence. Source of the rules: `TransactionManager`,
`TxnPartitionEntry` and `RecordAccumulator` of Apache Kafka 4.3 (KIP-98, KIP-360).
"""

from __future__ import annotations

from collections import deque

from klamm.client.config import Address
from klamm.client.producer.batch import NO_IDENTITY, BatchState, PendingBatch, ProducerIdentity
from klamm.protocol.record_batch import NO_PRODUCER_ID, increment_sequence
from klamm.protocol.types import Millis, TopicPartition

__all__ = ["PartitionLane"]


class PartitionLane:
    """The unfinished batches of one partition.

    `in_flight` has the batches that were sent at least once, in the order of their sequences, including batches that
    failed and left a gap (state LOST). `queue` has the batches that were not sent yet; its last batch may be open.
    """

    def __init__(self, topic_partition: TopicPartition, *, is_idempotent: bool, most_in_flight: int) -> None:
        self.topic_partition = topic_partition
        self.queue: deque[PendingBatch] = deque()
        self.in_flight: deque[PendingBatch] = deque()
        self.on_wire = 0
        """Number of batches in requests without an answer."""
        self.address: Address | None = None
        """The broker that got these batches."""
        self.identity = NO_IDENTITY
        """The producer id and epoch of `in_flight`, and of the next sequence."""
        self.next_sequence = 0
        self.needs_new_epoch = False
        """Whether the broker has shown that the sequences of the first batch can't be continued."""
        self._next_number = 0
        self._known_producer_id = NO_PRODUCER_ID
        """The producer id of the last acknowledged batch."""
        self._is_idempotent = is_idempotent
        self._most_in_flight = most_in_flight

    @property
    def is_empty(self) -> bool:
        """Whether there is no batch, and no gap to resolve."""
        return not self.queue and not self.in_flight

    @property
    def open_batch(self) -> PendingBatch | None:
        """The batch that takes the next record."""
        if self.queue and self.queue[-1].state is BatchState.OPEN:
            return self.queue[-1]
        return None

    def unfinished(self) -> list[PendingBatch]:
        """Returns all batches that have not ended."""
        return [batch for batch in (*self.in_flight, *self.queue) if not batch.is_done]

    def is_first(self, batch: PendingBatch) -> bool:
        """Returns whether each earlier batch has an outcome."""
        return next((each for each in self.in_flight if each.state is not BatchState.LOST), None) is batch

    def next_batch(self, identity: ProducerIdentity) -> PendingBatch | None:
        """Returns the batch that may be sent next, of a producer with this identity; None if all have to wait.

        The caller checks the time of the batch (`next_attempt_ms`, linger).
        """
        may_add = not self.needs_new_epoch and self._has_room()
        is_behind_wire = False
        for batch in self.in_flight:
            if batch.state is BatchState.LOST:
                if not batch.may_be_written:
                    return None
                may_add = False
            elif batch.state is BatchState.RETRY:
                return None if is_behind_wire or self.needs_new_epoch else batch
            else:
                is_behind_wire = True
        if not may_add or not self.queue:
            return None
        if self._is_idempotent and (identity == NO_IDENTITY or (self.in_flight and self.identity != identity)):
            return None
        return self.queue[0]

    def _has_room(self) -> bool:
        """Returns whether another batch may follow the first one that has no outcome.

        The broker remembers the last five batches. If the answer for the first batch is lost, this batch must still be
        among the last five when it is sent again. So batches after it count even if they are acknowledged. A broker
        that does not know the producer accepts any sequence, also that of the second batch after it has refused the
        first. So the first batch of a producer id is sent alone.
        """
        if not self.in_flight:
            return True
        if self._is_idempotent and self._known_producer_id != self.identity.producer_id:
            return False
        return self._next_number - self.in_flight[0].number < self._most_in_flight

    def send(self, batch: PendingBatch, identity: ProducerIdentity, address: Address) -> None:
        """Notes that the batch of `next_batch` is being sent; gives it a sequence the first time."""
        if batch.state is not BatchState.RETRY:
            assert self.queue[0] is batch
            self.queue.popleft()
            if self._is_idempotent:
                if not self.in_flight and self.identity != identity:
                    self.identity, self.next_sequence = identity, 0
                batch.assign(identity, self.next_sequence)
                self.next_sequence = batch.next_sequence
            batch.number = self._next_number
            self._next_number += 1
            self.in_flight.append(batch)
        batch.state = BatchState.ON_WIRE
        batch.attempts += 1
        self.on_wire += 1
        self.address = address

    def answered(self, batch: PendingBatch) -> None:
        """Notes that the batch is no longer in flight; call this before one of the methods below."""
        assert batch.state is BatchState.ON_WIRE
        self.on_wire -= 1

    def acknowledged(self, batch: PendingBatch) -> None:
        """Removes a batch that the broker has written.

        Because this batch continues the sequences, earlier LOST batches were written too.
        """
        batch.state = BatchState.DONE
        self._known_producer_id = batch.identity.producer_id
        while self.in_flight[0].state is BatchState.LOST and self.is_first(batch):
            self.in_flight.popleft()
        self.in_flight.remove(batch)

    def retry(self, batch: PendingBatch, at: Millis) -> None:
        """Keeps the batch to be sent again at this time or later."""
        batch.state = BatchState.RETRY
        batch.next_attempt_ms = at

    def lose(self, batch: PendingBatch) -> None:
        """Notes that a batch failed after it was sent: its sequence is a gap, unless the broker has written the
        batch."""
        if self._is_idempotent:
            batch.state = BatchState.LOST
        else:
            batch.state = BatchState.DONE
            self.in_flight.remove(batch)

    def replace(self, batch: PendingBatch, parts: list[PendingBatch]) -> None:
        """Replaces a batch that the broker has refused as too large by its parts. The parts share the sequences of the
        batch, so the following batches keep their sequences.
        """
        sequence = batch.base_sequence
        at = self.in_flight.index(batch)
        for part in parts:
            part.state = BatchState.RETRY
            part.number = batch.number
            if self._is_idempotent:
                part.assign(batch.identity, sequence)
                sequence = part.next_sequence
        batch.state = BatchState.DONE
        self.in_flight.remove(batch)
        for index, part in enumerate(parts):
            self.in_flight.insert(at + index, part)

    def must_restart(self) -> bool:
        """Returns whether the sequences have to begin again under a new epoch, and may do so because no batch is in
        flight."""
        if self.on_wire:
            return False
        if self.needs_new_epoch:
            return True
        for batch in self.in_flight:
            if batch.state is not BatchState.LOST:
                return False
            if not batch.may_be_written:
                return True
        return bool(self.in_flight)

    def restart(self, identity: ProducerIdentity) -> None:
        """Gives the batches new sequences, from 0, under another identity; forgets the lost ones."""
        assert not self.on_wire
        assert identity != self.identity
        self.in_flight = deque(batch for batch in self.in_flight if batch.state is not BatchState.LOST)
        self.identity, self.needs_new_epoch = identity, False
        sequence = 0
        for batch in self.in_flight:
            batch.assign(identity, sequence)
            sequence = increment_sequence(sequence, batch.records_count)
        self.next_sequence = sequence

    def forget_lost(self) -> None:
        """Forgets the lost batches: the transaction has ended, and the next one has another epoch."""
        self.in_flight = deque(batch for batch in self.in_flight if batch.state is not BatchState.LOST)
        self.needs_new_epoch = False
