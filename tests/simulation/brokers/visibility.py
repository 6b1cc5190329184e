"""Decides which fetched records an application may see, as Kafka's consumer does (`CompletedFetch`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.records import decode_batch

__all__ = ["Visible"]


class Visible:
    """The visibility of the batches in one answer for one partition. `aborted` is the answer's list of aborted
    transactions.
    """

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._upcoming = sorted(aborted, key=lambda transaction: transaction[1])
        self._aborting: set[int] = set()

    def records(
        self, fetched: memoryview, position: int, header: BatchHeader
    ) -> Iterator[tuple[int, bytes | None, bool]]:
        """Yields offset, value and visibility of each record in a batch; the value of a control record is None."""
        while self._upcoming and self._upcoming[0][1] <= header.last_offset:
            self._aborting.add(self._upcoming.pop(0)[0])
        records = decode_batch(fetched, position)
        if header.is_control:
            for record in records:
                if record.key is not None and record.key[3] == 0:
                    self._aborting.discard(header.producer_id)
                yield record.offset, None, False
            return
        is_shown = not (header.is_transactional and header.producer_id in self._aborting)
        for record in records:
            yield record.offset, record.value, is_shown
