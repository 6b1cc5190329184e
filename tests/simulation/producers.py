"""The producer state of a simulated partition: klamm's own `ProducerState` over the batches of the partition.

So the partition refuses a late batch or a late marker as a real log does.
"""

from __future__ import annotations

from collections.abc import Iterable

from klamm.core.log.producer_state import ProducerState
from klamm.protocol.control_batch import EndTransactionMarker, read_end_transaction_marker
from klamm.protocol.records import BatchHeader, decode_batch, read_batch_header
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["Producers"]

_NEVER_MS = 2**53
_NO_SEQUENCE = -1


class Producers:
    """The producers of one partition, as its leader knows them."""

    def __init__(self) -> None:
        self._state = ProducerState(_NEVER_MS)

    def load(self, batches: Iterable[bytes]) -> None:
        """Rebuilds the state from the log for a new leader; earlier guards become invalid."""
        self._state = ProducerState(_NEVER_MS)
        for batch in batches:
            header = read_batch_header(batch)
            self._note(header, _marker(header, batch))

    def begin_verification(
        self, producer_id: ProducerId, epoch: ProducerEpoch, *, adds_partitions: bool, now_ms: Millis
    ) -> int:
        """Returns the guard for the write, or 0 if no verification is needed. Raises KafkaError."""
        return self._state.begin_verification(
            producer_id, epoch, _NO_SEQUENCE, adds_partitions=adds_partitions, now_ms=now_ms
        )

    def append(self, header: BatchHeader, batch: bytes, guard: int, transaction_version: int) -> None:
        """Checks a batch, and records it. Raises KafkaError."""
        marker = _marker(header, batch)
        if marker is None:
            self._state.check_of_coordinator(header, guard)
        else:
            self._state.check_marker(header, marker, transaction_version)
        self._note(header, marker)

    def _note(self, header: BatchHeader, marker: EndTransactionMarker | None) -> None:
        completed = self._state.record(header, Offset(header.base_offset), marker)
        if completed is not None:
            self._state.transactions.complete(completed, Offset(header.next_offset))


def _marker(header: BatchHeader, batch: bytes) -> EndTransactionMarker | None:
    if not header.is_control:
        return None
    (record,) = decode_batch(batch)
    return read_end_transaction_marker(record)
