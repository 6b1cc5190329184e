"""Tests which batches a request may open on the event loop."""

from __future__ import annotations

import gzip

import pytest
from tests.support.bombs import batch_of, records_in_sequence
from tests.support.log_folder import NOW_MS, ORDERS

from klamm.broker.partitions.batch_opener import OpeningAllowance, OpensLater
from klamm.config.topic_config import TopicConfig
from klamm.core.log.batch_opening import BatchOpening
from klamm.protocol.compression import Compression
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, pack_header, read_batch_header

COMPACT = TopicConfig(cleanup_policy=frozenset({"compact"}))


def _opening(records: bytes) -> BatchOpening:
    return BatchOpening(records, read_batch_header(records), COMPACT, NOW_MS, ORDERS, True)


def _gzip_batch(members: int) -> bytes:
    """Returns a batch of a few records, followed by members of gzip without content."""
    sent = batch_of(records_in_sequence(3), 3, Compression.GZIP, base_timestamp=NOW_MS)
    closed = sent[HEADER_SIZE_BYTES:] + gzip.compress(b"", mtime=0) * members
    return pack_header(read_batch_header(sent), closed) + closed


def test_compressed_bytes_have_a_limit_on_the_event_loop() -> None:
    """A batch of very many parts that hold nothing is opened on the thread, and so are many batches of some parts."""
    allowance = OpeningAllowance()
    with pytest.raises(OpensLater):
        allowance.open(_opening(_gzip_batch(5_000)))
    some = _opening(_gzip_batch(600))
    for _ in range(2):
        allowance.open(some)
    with pytest.raises(OpensLater):
        allowance.open(some)
    allowance.open(_opening(batch_of(records_in_sequence(10_000), 10_000, Compression.NONE, base_timestamp=NOW_MS)))
