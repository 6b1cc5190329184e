"""Tests that records which were read ahead are handed out only while the log is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cleaner import clean
from tests.support.event_loop import in_loop
from tests.support.log_folder import NOW_MS, LogFolder, append, batch

from klamm.broker.partitions.fetch_read import FetchRead
from klamm.broker.partitions.fetch_sessions import CachedPartition
from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.partitions.warm_reads import WarmReads
from klamm.client.visible import Visibility
from klamm.config.topic_config import TopicConfig
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicId

ONE = BrokerId(1)
PRODUCER = ProducerId(7)
TOPIC_ID = TopicId(bytes(range(16)))
MAX_BYTES = 1_000_000
COMPACTED = TopicConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)


def abort_a_transaction(partition: Partition) -> None:
    """Writes a record of a transaction, and the marker that aborts the transaction."""
    log = partition.log
    guard = log.transactions.begin_verification(PRODUCER, ProducerEpoch(0), 0, adds_partitions=False, now_ms=NOW_MS)
    records = batch(key=b"aborted", producer_id=PRODUCER, epoch=0, sequence=0, is_transactional=True)
    partition.append(records, NOW_MS, verification_guard=guard)
    marker = encode_end_transaction_marker(
        EndTransactionMarker(False, 0), producer_id=PRODUCER, producer_epoch=ProducerEpoch(0), timestamp_ms=NOW_MS
    )
    partition.append(marker, NOW_MS, from_client=False)


def visible_offsets(registry: PartitionRegistry, warm_reads: WarmReads) -> list[int]:
    """Returns the offsets of the batches that a read_committed consumer shows from offset 0 on."""
    request = FetchRequest(-1, 0, 1, MAX_BYTES, 1, 0, -1, [], [])
    wanted = CachedPartition(("orders", 0), FetchPartition(0, -1, 0, -1, -1, MAX_BYTES))
    ((_, answer),) = FetchRead(registry, warm_reads, request, 12, MAX_BYTES).read([wanted]).answers
    assert isinstance(answer.records, (bytes, memoryview))
    visibility = Visibility(answer.aborted_transactions or [])
    records = memoryview(answer.records)
    return [
        header.base_offset
        for start, header in iterate_batches(records)
        if visibility.allows(header, records[start : start + header.size_bytes]) and header.records_count
    ]


@pytest.mark.parametrize("cleanings", [0, 1, 2])
@in_loop
async def test_aborted_records_stay_hidden_after_a_cleaning(tmp_path: Path, cleanings: int) -> None:
    """I11: the second cleaning after an abort forgets the transaction, because none of its records is left. Records
    that were read ahead before that are not handed out."""
    folder = LogFolder(tmp_path, COMPACTED)
    registry = PartitionRegistry(ONE, folder.directory, lambda topic: COMPACTED)
    topic = TopicImage("orders", TOPIC_ID, (PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE,), (ONE,)),))
    registry.apply(None, MetadataImage(topics={"orders": topic}, topics_by_id={TOPIC_ID: topic}))
    partition = registry.get("orders", 0)
    abort_a_transaction(partition)
    append(partition.log, batch(key=b"plain"))
    append(partition.log, batch(key=b"of the producer", producer_id=PRODUCER, epoch=0, sequence=1))
    warm_reads = WarmReads()
    warm_reads._read(partition, Offset(0))
    assert partition.warm_read is not None
    for number in range(cleanings):
        partition.log.roll(folder.now_ms)
        append(partition.log, batch(key=b"%d" % number))
        partition.log.roll(folder.now_ms)
        assert clean(folder)
    assert visible_offsets(registry, warm_reads)[:2] == [2, 3]
    warm_reads.stop()
    folder.close()
