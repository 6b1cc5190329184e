"""Which producers' transactions are being verified with the transaction coordinator (KIP-890).

Before the first batch of a transaction is written to a partition, the coordinator must know that the partition takes
part; else nobody would ever end the transaction here. The answer takes a while, and by then the transaction may be
over and another have begun. So whoever asks gets a guard, and writes with it: it is good only as long as nothing was
written to end what was asked about.

Source: `storage/internals/log/VerificationStateEntry.java`, `VerificationGuard.java` and `UnifiedLog.updateProducers`
of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.types import Millis, ProducerEpoch, ProducerId

__all__ = ["NO_GUARD", "UNVERIFIED", "Verification", "Verifications"]

NO_GUARD: Final = 0
"""Stands for no verification; it verifies nothing."""
UNVERIFIED: Final = -1
"""Stands for a batch that need not be verified, where `transaction.partition.verification.enable` is off."""


class Verification:
    """One producer's verification in one partition."""

    __slots__ = ("adds_partitions", "epoch", "guard", "lowest_sequence", "started_ms")

    def __init__(
        self, guard: int, epoch: ProducerEpoch, sequence: int, *, adds_partitions: bool, started_ms: Millis
    ) -> None:
        self.guard = guard
        self.epoch = epoch
        self.lowest_sequence = sequence
        """A batch with a higher sequence must not overtake this one, which was refused for a while and will come again.
        Else the log would take the later for the first, and refuse the earlier for ever."""
        self.adds_partitions = adds_partitions
        """Whether the producer has the broker add partitions, as transaction version 2 does."""
        self.started_ms = started_ms

    def note(self, epoch: ProducerEpoch, sequence: int) -> None:
        """Another batch of the producer is to be verified."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """The verifications of one log."""

    __slots__ = ("_by_producer", "_last_guard")

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, Verification] = {}
        self._last_guard = NO_GUARD

    def __len__(self) -> int:
        return len(self._by_producer)

    def clear(self) -> None:
        """Forgets all; no guard that was given holds any more."""
        self._by_producer.clear()

    def get(self, producer_id: int) -> Verification | None:
        """The verification of a producer that has not written since."""
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
        """The guard to write with; that of the verification which is under way, if there is one."""
        verification = self._by_producer.get(producer_id)
        if verification is None:
            self._last_guard += 1
            verification = self._by_producer[producer_id] = Verification(
                self._last_guard, epoch, sequence, adds_partitions=adds_partitions, started_ms=now_ms
            )
        else:
            verification.note(epoch, sequence)
        return verification.guard

    def holds(self, producer_id: int, guard: int) -> bool:
        """Whether a batch that was verified under `guard` may still be written."""
        verification = self._by_producer.get(ProducerId(producer_id))
        return guard == UNVERIFIED or (verification is not None and verification.guard == guard)

    def forget_written(self, header: BatchHeader) -> None:
        """A batch or a marker of a transaction was written: what was asked before is answered, or out of date.

        Except by a marker of the epoch that is asked for: under transaction version 2 that epoch is the next
        transaction's.
        """
        verification = self._by_producer.get(ProducerId(header.producer_id))
        if verification is None:
            return
        is_next_asked_for = verification.adds_partitions and header.producer_epoch == verification.epoch
        if not (header.is_control and is_next_asked_for):
            del self._by_producer[ProducerId(header.producer_id)]

    def expire(self, now_ms: Millis, expiration_ms: int) -> None:
        """Forgets those that were begun so long ago."""
        for producer_id in [
            producer_id
            for producer_id, verification in self._by_producer.items()
            if now_ms - verification.started_ms >= expiration_ms
        ]:
            del self._by_producer[producer_id]
