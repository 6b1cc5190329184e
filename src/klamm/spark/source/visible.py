"""Which batches an application may see: no control batches, and none of an aborted transaction.

Source of the rule: `CompletedFetch` of Apache Kafka's consumer (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from klamm.client.fetch import AbortedTransaction
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.record_batch import BatchHeader, CorruptRecord, batch_crc_is_valid
from klamm.protocol.records import decode_batch
from klamm.spark.source.columns import ClosedBatch

__all__ = ["visible_batches"]


def visible_batches(
    batches: Iterable[tuple[BatchHeader, memoryview]],
    aborted_transactions: Sequence[AbortedTransaction],
    *,
    check_crcs: bool,
) -> Iterator[ClosedBatch]:
    """The batches of one Fetch answer that hold records for an application, in their order.

    `aborted_transactions` is what the same answer listed; it is empty for a read of uncommitted records.
    Raises `CorruptRecord` for a batch whose CRC is wrong, unless that is not to be checked.
    """
    upcoming = sorted(aborted_transactions, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    for header, data in batches:
        if check_crcs and not batch_crc_is_valid(data, 0, header):
            raise CorruptRecord(
                f"the CRC of the batch at offset {header.base_offset} does not match its bytes; "
                "kafka.check.crcs=false reads it all the same"
            )
        while upcoming and upcoming[-1][1] <= header.last_offset:
            aborting.add(upcoming.pop()[0])
        if header.is_control:
            if header.producer_id in aborting and _is_abort(data):
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield ClosedBatch(header, data)


def _is_abort(data: memoryview) -> bool:
    markers = (read_end_transaction_marker(record) for record in decode_batch(data))
    return any(marker is not None and not marker.is_commit for marker in markers)
