"""The verifications of producers' transactions with the transaction coordinator (KIP-890).

Before the first batch of a transaction is written to a partition, the coordinator must have added the partition to the
transaction; otherwise the transaction would never end in this partition. While the coordinator answers, the transaction
may end and another one may begin. So each verification has a guard, and the batch is written with that guard. The guard
is valid only until a write ends the verification (`forget_written`).

Source: `storage/internals/log/VerificationStateEntry.java`, `VerificationGuard.java` and `UnifiedLog.updateProducers`
of Apache Kafka 4.3.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.types import Millis, ProducerEpoch, ProducerId

__all__ = ["NO_GUARD", "UNVERIFIED", "Verification", "Verifications"]

NO_GUARD: Final = 0
"""No verification; a batch with this guard is not verified."""
UNVERIFIED: Final = -1
"""No verification needed, because `transaction.partition.verification.enable` is off."""
_guards: Final = count(NO_GUARD + 1)
"""No guard is given twice, in no log: a truncation, or another log of the same partition, begins without verifications,
and a guard from before must not pass for a later one."""


class Verification:
    """One producer's verification in one partition."""

    __slots__ = ("adds_partitions", "epoch", "guard", "lowest_sequence", "started_ms")

    def __init__(
        self, guard: int, epoch: ProducerEpoch, sequence: int, *, adds_partitions: bool, started_ms: Millis
    ) -> None:
        self.guard = guard
        self.epoch = epoch
        self.lowest_sequence = sequence
        """A batch with a higher sequence must not overtake this sequence, whose batch is refused for now and will be
        sent again. Otherwise the log would accept the later batch first, and then always refuse the earlier one."""
        self.adds_partitions = adds_partitions
        """Whether the broker adds partitions for the producer, as in transaction version 2."""
        self.started_ms = started_ms

    def note(self, epoch: ProducerEpoch, sequence: int) -> None:
        """Adds another batch of the producer to the verification."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """The verifications of one log."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def clear(self) -> None:
        """Drops all verifications, so that no existing guard is valid."""
        self._by_producer.clear()

    def get(self, producer_id: int) -> Verification | None:
        """Returns the producer's pending verification, or None."""
        return self._by_producer.get(ProducerId(producer_id))

    def begin(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        sequence: int,
        *,
        adds_partitions: bool,
        now_ms: Millis,
    ) -> int:
        """Begins a verification, or joins the producer's pending one; returns the guard to write with."""
        verification = self._by_producer.get(producer_id)
        if verification is None:
            verification = self._by_producer[producer_id] = Verification(
                next(_guards), epoch, sequence, adds_partitions=adds_partitions, started_ms=now_ms
            )
        else:
            verification.note(epoch, sequence)
        return verification.guard

    def holds(self, producer_id: int, guard: int) -> bool:
        """Returns whether a batch that was verified under `guard` may still be written."""
        verification = self._by_producer.get(ProducerId(producer_id))
        return guard == UNVERIFIED or (verification is not None and verification.guard == guard)

    def forget_written(self, header: BatchHeader) -> None:
        """Drops the producer's verification after a transaction's batch or marker was written.

        A marker with the verification's own epoch keeps it: under transaction version 2, that epoch belongs to the next
        transaction.
        """
        verification = self._by_producer.get(ProducerId(header.producer_id))
        if verification is None:
            return
        is_next_asked_for = verification.adds_partitions and header.producer_epoch == verification.epoch
        if not (header.is_control and is_next_asked_for):
            del self._by_producer[ProducerId(header.producer_id)]

    def expire(self, now_ms: Millis, expiration_ms: int) -> None:
        """Drops the verifications that began at least `expiration_ms` ago."""
        for producer_id in [
            producer_id
            for producer_id, verification in self._by_producer.items()
            if now_ms - verification.started_ms >= expiration_ms
        ]:
            del self._by_producer[producer_id]
