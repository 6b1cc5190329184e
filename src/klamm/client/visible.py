"""Hides control batches and the batches of aborted transactions from an application.

Source of the rule: `CompletedFetch` of Apache Kafka's consumer (KIP-98).
"""

from __future__ import annotations

from collections.abc import Sequence

from klamm.client.fetch_exchange import AbortedTransaction
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.records import decode_batch

__all__ = ["Visibility"]


class Visibility:
    """The visible batches of one Fetch response. Transactional and control batches must be passed to it in their
    order."""

    def __init__(self, aborted_transactions: Sequence[AbortedTransaction]) -> None:
        """Takes the aborted transactions that the response lists: none for a read of uncommitted records."""
        self._upcoming = sorted(aborted_transactions, key=lambda transaction: transaction[1], reverse=True)
        self._aborting: set[int] = set()
        self.of_all_transactions = not aborted_transactions
        """Whether no transaction was aborted, so that only control batches are hidden."""

    def allows(self, header: BatchHeader, batch: memoryview) -> bool:
        """Returns whether the batch holds records for an application."""
        while self._upcoming and self._upcoming[-1][1] <= header.last_offset:
            self._aborting.add(self._upcoming.pop()[0])
        if header.is_control:
            if header.producer_id in self._aborting and _is_abort(batch):
                self._aborting.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._aborting)


def _is_abort(batch: memoryview) -> bool:
    markers = (read_end_transaction_marker(record) for record in decode_batch(batch))
    return any(marker is not None and not marker.is_commit for marker in markers)
