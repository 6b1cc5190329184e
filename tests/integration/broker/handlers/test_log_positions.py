"""ListOffsets and DeleteRecords handle each partition once, even if a request names the partition several times."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.schema.delete_records_response import DeleteRecordsResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.types import TopicId

NewTopic = Callable[..., tuple[str, TopicId]]
LATEST, EARLIEST = -1, -2


def test_offsets_that_are_asked_for_twice_are_refused_once(wire: Wire, new_topic: NewTopic) -> None:
    """A partition that is named twice gets one INVALID_REQUEST; each topic is answered once, and a topic without
    partitions is left out."""
    name, _ = new_topic(2)

    def at(timestamp: int, index: int) -> ListOffsetsPartition:
        return ListOffsetsPartition(partition_index=index, timestamp=timestamp)

    topics = [
        ListOffsetsTopic(name=name, partitions=[at(LATEST, 0)]),
        ListOffsetsTopic(name=name, partitions=[at(LATEST, 1), at(EARLIEST, 0)]),
        ListOffsetsTopic(name="empty", partitions=[]),
    ]
    (answer,) = wire.call(ListOffsetsResponse, 7, ListOffsetsRequest(replica_id=-1, topics=topics)).topics
    assert [(each.partition_index, each.error_code, each.offset) for each in answer.partitions] == [
        (0, ErrorCode.INVALID_REQUEST, -1),
        (1, ErrorCode.NONE, 0),
    ]


def test_records_are_deleted_up_to_what_was_said_last(wire: Wire, new_topic: NewTopic) -> None:
    """If DeleteRecords names a partition twice, the last offset counts, as in Kafka."""
    name, _ = new_topic()
    records = memoryview(encode_batch([(time.time_ns() // 1_000_000, b"k", b"v", ())] * 3))
    wire.produce(9, ProduceRequest(None, -1, 10_000, [ProduceTopic(name, None, [(0, records)])]))
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (3, 1)]
    topics = [DeleteRecordsTopic(name=name, partitions=[partition]) for partition in partitions]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=10_000)
    (answer,) = wire.call(DeleteRecordsResponse, 2, request).topics
    assert [(each.partition_index, each.low_watermark) for each in answer.partitions] == [(0, 1)]
