"""Conversations about the start and the end of a log: ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

from tests.interop.wire_conversations.batches import TIME, batch
from tests.interop.wire_conversations.peer import Topic
from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.compression import Compression
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
SPECIAL = (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD, -7, -100)


def list_offsets(talk: Talk, *topics: tuple[str, list[ListOffsetsPartition]], **fields: Any) -> None:
    asked = [ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics]
    fields.setdefault("replica_id", -1)
    talk.ask(ListOffsetsRequest(topics=asked, timeout_ms=10_000, **fields))


def at(timestamp: int, index: int = 0, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)


def timed(*times: int, **options: Any) -> bytes:
    return encode_batch([(TIME + time, b"k", b"v", ()) for time in times], **options)


def shared(talk: Talk) -> Topic:
    """Returns a topic whose timestamps rise, fall and repeat, within and between batches, plain and compressed."""
    return talk.shared_topic(
        "timed",
        2,
        timed(0, 10, 20),
        timed(5, 40, 30),
        timed(40, 35, compression=Compression.GZIP),
        timed(25, 25, 60, 60, compression=Compression.ZSTD),
        timed(50),
    )


@conversation(ApiKey.LIST_OFFSETS)
def list_offsets_for_special_times(talk: Talk) -> None:
    """Lists the earliest and latest offset, the largest timestamp and later special times, also for an empty log."""
    topic = shared(talk)
    for special in SPECIAL:
        list_offsets(talk, (topic.name, [at(special)]))
        list_offsets(talk, (topic.name, [at(special, 1)]))


@conversation(ApiKey.LIST_OFFSETS)
def list_offsets_for_times(talk: Talk) -> None:
    """Lists the first offset whose timestamp is not below a given time."""
    topic = shared(talk)
    for time in (-TIME, -1000, 0, 1, 5, 6, 20, 21, 30, 36, 40, 41, 50, 51, 60, 61, 10**12):
        list_offsets(talk, (topic.name, [at(TIME + time), at(TIME + time, 1)]))


@conversation(ApiKey.LIST_OFFSETS)
def list_offsets_of_what_is_not_there(talk: Talk) -> None:
    """Lists offsets of unknown topics and partitions, of duplicates, and of none."""
    topic = shared(talk)
    list_offsets(talk, ("wire-strange", [at(LATEST), at(LATEST, 7)]), (topic.name, [at(LATEST, 9), at(LATEST)]))
    list_offsets(talk, (topic.name, [at(LATEST, -1)]))
    list_offsets(talk, (topic.name, [at(LATEST), at(EARLIEST), at(LATEST, 1)]))
    list_offsets(talk, (topic.name, [at(LATEST)]), (topic.name, [at(EARLIEST), at(EARLIEST, 1)]))
    list_offsets(talk, ("a b", [at(LATEST)]), ("", [at(LATEST)]))
    list_offsets(talk, (topic.name, []))
    list_offsets(talk)


@conversation(ApiKey.LIST_OFFSETS)
def list_offsets_as_others(talk: Talk) -> None:
    """Lists offsets with each isolation level and with replica ids."""
    topic = shared(talk)
    for level in (0, 1):
        for replica in (-1, -2, -3, 1, 7):
            for special in (LATEST, EARLIEST, TIME + 21):
                list_offsets(talk, (topic.name, [at(special)]), replica_id=replica, isolation_level=level)


@conversation(ApiKey.LIST_OFFSETS, since=4)
def list_offsets_with_leader_epochs(talk: Talk) -> None:
    """Lists offsets with the current leader epoch, other epochs, and none."""
    topic = shared(talk)
    for epoch in (-1, 0, 1, -2, 5):
        for special in (LATEST, EARLIEST, TIME + 21, TIME + 100):
            list_offsets(talk, (topic.name, [at(special, epoch=epoch)]))


@conversation(ApiKey.LIST_OFFSETS, since=7)
def list_offsets_of_odd_logs(talk: Talk) -> None:
    """Lists offsets of logs with LogAppendTime, with deleted records, and without timestamps."""
    appended = talk.topic("a", message_timestamp_type="LogAppendTime")
    talk.append(appended, timed(5, 3))
    list_offsets(talk, (appended.name, [at(MAX_TIMESTAMP)]))
    list_offsets(talk, (appended.name, [at(TIME)]))
    cut = talk.topic("b")
    talk.append(cut, timed(50, 10), timed(20, 30), timed(5))
    for before in (1, 2, 5):
        talk.delete_records(cut, before)
        for special in (EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, TIME, TIME + 40):
            list_offsets(talk, (cut.name, [at(special)]))
    untimed = talk.topic("c")
    talk.append(untimed, batch(b"a", timestamp=-1), batch(b"b", timestamp=0))
    for special in (EARLIEST, LATEST, MAX_TIMESTAMP, 0, 1):
        list_offsets(talk, (untimed.name, [at(special)]))


@conversation(ApiKey.DELETE_RECORDS)
def delete_records(talk: Talk) -> None:
    """Deletes records up to valid offsets, and up to offsets below and above the log."""
    topic = talk.topic("a", 2)
    talk.append(topic, batch(b"a", b"b"), batch(b"c", b"d"))

    def delete(*topics: tuple[str, list[tuple[int, int]]]) -> None:
        asked = [
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in partitions
                ],
            )
            for name, partitions in topics
        ]
        talk.ask(DeleteRecordsRequest(topics=asked, timeout_ms=10_000))

    delete((topic.name, [(0, 1)]))
    delete((topic.name, [(0, 0)]))
    delete((topic.name, [(0, 5)]))
    delete((topic.name, [(0, -2)]))
    delete((topic.name, [(0, 3), (1, 0), (9, 0)]), ("wire-strange", [(0, 0)]))
    delete((topic.name, [(1, -1)]))
    delete((topic.name, [(0, -1)]))
    delete((topic.name, [(0, 4), (0, 3)]))
    delete((topic.name, []))
    delete()
    delete(("__consumer_offsets", [(0, 0)]))
    for policy in ("compact", "compact,delete"):
        compacted = talk.topic(policy.replace(",", "-"), cleanup_policy=policy)
        talk.append(compacted, batch(b"a", b"b"))
        delete((compacted.name, [(0, 1)]))


@conversation(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(talk: Talk) -> None:
    """Requests the end offsets of past, present and future epochs."""
    topic = shared(talk)

    def ask(*topics: tuple[str, list[tuple[int, int, int]]], replica: int = -1) -> None:
        asked = [
            OffsetForLeaderTopic(
                topic=name,
                partitions=[
                    OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
                    for index, current, epoch in partitions
                ],
            )
            for name, partitions in topics
        ]
        talk.ask(OffsetForLeaderEpochRequest(replica_id=replica, topics=asked))

    for epoch in (-1, 0, 1, -2, 9):
        ask((topic.name, [(0, -1, epoch), (1, -1, epoch)]))
        ask((topic.name, [(0, epoch, 0)]))
    ask((topic.name, [(9, -1, 0), (0, -1, 0)]), ("wire-strange", [(0, -1, 0)]))
    ask((topic.name, [(0, -1, 0), (0, -1, 5)]), (topic.name, [(1, -1, 0)]))
    for replica in (-2, 1, 7):
        ask((topic.name, [(0, -1, 0)]), replica=replica)
    ask((topic.name, []))
    ask()
