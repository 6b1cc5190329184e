"""Less common cases of Fetch: diverging epochs, limits, the order of partitions, and what a session remembers."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

import pytest
from tests.support.wire import Wire

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import FetchResponse, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import decode_records, encode_batch
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.delete_topics_response import DeleteTopicsResponse
from klamm.protocol.types import TopicId
from klamm.testing import Broker

NewTopic = Callable[..., tuple[str, TopicId]]
STRANGE = TopicId(b"\7" * 16)
FOREVER_MS = 60_000
"""Longer than the connection's timeout, so a request that waits this long fails the test."""


def append(wire: Wire, name: str, *values: bytes, index: int = 0) -> None:
    for value in values:
        records = memoryview(encode_batch([(time.time_ns() // 1_000_000, b"k", value, ())]))
        topics = [ProduceTopic(name, None, [(index, records)])]
        (answer,) = wire.produce(9, ProduceRequest(None, -1, 10_000, topics)).topics
        assert answer.partitions[0].error_code == ErrorCode.NONE


def part(
    index: int = 0, offset: int = 0, *, epoch: int = -1, last_epoch: int = -1, max_bytes: int = 10_000_000
) -> FetchPartition:
    return FetchPartition(index, epoch, offset, last_epoch, -1, max_bytes)


def fetch(
    wire: Wire,
    *topics: FetchTopic,
    version: int = 12,
    session: tuple[int, int] = (0, -1),
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    isolation_level: int = 0,
) -> FetchResponse:
    request = FetchRequest(-1, max_wait_ms, min_bytes, 10_000_000, isolation_level, *session, list(topics), [])
    return wire.fetch(version, request)


def by_name(name: str, *partitions: FetchPartition) -> FetchTopic:
    return FetchTopic(name, None, list(partitions))


def by_id(topic_id: TopicId, *partitions: FetchPartition) -> FetchTopic:
    return FetchTopic(None, topic_id, list(partitions))


def only(response: FetchResponse) -> FetchPartitionResponse:
    (topic,) = response.topics
    (partition,) = topic.partitions
    return partition


def test_a_reader_whose_epochs_diverge_is_told_where(wire: Wire, new_topic: NewTopic) -> None:
    """A fetch whose last epoch diverges is answered at once with the diverging epoch and no records; an epoch newer
    than the log gets OFFSET_OUT_OF_RANGE (KIP-595)."""
    name, _ = new_topic()
    append(wire, name, b"a", b"b")
    told = only(fetch(wire, by_name(name, part(0, 7, last_epoch=0)), max_wait_ms=FOREVER_MS))
    assert (told.error_code, told.diverging_epoch, told.high_watermark) == (ErrorCode.NONE, (0, 2), 2)
    assert not told.records
    ahead = only(fetch(wire, by_name(name, part(0, 2, last_epoch=5)), max_wait_ms=FOREVER_MS))
    assert ahead.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    same = only(fetch(wire, by_name(name, part(0, 1, last_epoch=0))))
    assert same.diverging_epoch is None
    assert same.records
    empty, _ = new_topic()
    assert only(fetch(wire, by_name(empty, part(0, 0, last_epoch=-7)))).error_code == ErrorCode.NONE


def test_negative_epochs_ask_for_no_check(wire: Wire, new_topic: NewTopic) -> None:
    """A negative leader epoch in a Fetch is not checked, as in Kafka."""
    name, _ = new_topic()
    assert only(fetch(wire, by_name(name, part(epoch=-2)))).error_code == ErrorCode.NONE
    assert only(fetch(wire, by_name(name, part(epoch=1)))).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_what_is_unknown_comes_last_and_each_partition_once(wire: Wire, new_topic: NewTopic) -> None:
    """A response lists read partitions first, then unknown topic ids, then unknown partitions. For a partition that is
    named twice, the last entry counts."""
    name, topic_id = new_topic()
    append(wire, name, b"a", b"b")
    response = fetch(
        wire,
        by_id(topic_id, part(9), part(0, 0)),
        by_id(STRANGE, part()),
        by_id(topic_id, part(0, 1)),
        version=13,
    )
    answered = [(topic.topic_id, each.index, each.error_code) for topic in response.topics for each in topic.partitions]
    assert answered == [
        (topic_id, 0, ErrorCode.NONE),
        (STRANGE, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        (topic_id, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    known, unknown = response.topics[0].partitions[0], response.topics[1].partitions[0]
    assert isinstance(known.records, memoryview)
    assert [record.value for record in decode_records(known.records)] == [b"b"]
    assert (known.aborted_transactions, unknown.aborted_transactions) == (None, [])


def test_an_unknown_isolation_level_is_refused(wire: Wire, new_topic: NewTopic) -> None:
    """An unknown isolation level fails the whole request; with topic ids the response contains no topics."""
    name, topic_id = new_topic()
    refused = fetch(wire, by_name(name, part()), isolation_level=2)
    assert (refused.error_code, only(refused).error_code) == (ErrorCode.UNKNOWN_SERVER_ERROR,) * 2
    refused = fetch(wire, by_id(topic_id, part()), isolation_level=2, version=13)
    assert (refused.error_code, list(refused.topics)) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


def test_a_request_does_not_wait_for_what_is_there(wire: Wire, new_topic: NewTopic) -> None:
    """A fetch is answered at once with fewer than min_bytes if a partition limit or the end of a segment cuts the
    read."""
    name, _ = new_topic(segment_bytes="1048576", max_message_bytes="1000000")
    append(wire, name, b"a" * 700_000, b"b" * 700_000)
    limited = by_name(name, part(max_bytes=800_000))
    answer = only(fetch(wire, limited, max_wait_ms=FOREVER_MS, min_bytes=790_000))
    assert 700_000 < len(answer.records or b"") < 790_000
    answer = only(fetch(wire, by_name(name, part()), max_wait_ms=FOREVER_MS, min_bytes=1_000_000))
    assert 700_000 < len(answer.records or b"") < 1_000_000


def test_a_full_request_without_partitions_begins_a_session(wire: Wire, new_topic: NewTopic) -> None:
    """A full fetch request without partitions creates a session, as in Kafka; later requests may add partitions."""
    name, _ = new_topic()
    append(wire, name, b"a")
    session_id = fetch(wire, session=(0, 0)).session_id
    assert session_id > 0
    response = fetch(wire, by_name(name, part()), session=(session_id, 1))
    assert (response.error_code, response.session_id) == (ErrorCode.NONE, session_id)
    assert only(response).records


def test_a_session_goes_on_over_another_connection(wire: Wire, served: Broker, new_topic: NewTopic) -> None:
    """A session continues over a new connection after the first one closed, as in Kafka."""
    name, _ = new_topic()
    with Wire(served.bootstrap_servers) as before:
        session_id = fetch(before, by_name(name, part()), session=(0, 0)).session_id
    append(wire, name, b"a")
    response = fetch(wire, session=(session_id, 1))
    assert (response.error_code, response.session_id) == (ErrorCode.NONE, session_id)
    assert only(response).records


def test_a_session_ends_with_the_connection_that_waits_for_its_answer(
    wire: Wire, served: Broker, new_topic: NewTopic
) -> None:
    """A session ends when its connection breaks while a fetch waits. A request with the old session id and epoch 0 then
    begins a new session, as Kafka's clients do."""
    name, _ = new_topic()
    with Wire(served.bootstrap_servers) as before:
        session_id = fetch(before, by_name(name, part()), session=(0, 0)).session_id
        request = FetchRequest(-1, FOREVER_MS, 1, 10_000_000, 0, session_id, 1, [], [])
        before.send(ApiKey.FETCH, 12, encode_fetch_request(12, request))
        for _ in range(2):  # the loop may answer the first fetch before it reads the waiting request
            fetch(wire, by_name(name, part()))
        reset = struct.pack("ii", 1, 0)
        before.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    deadline = time.monotonic() + FOREVER_MS / 1000
    while (code := fetch(wire, session=(session_id, 9)).error_code) != ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
        assert code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert time.monotonic() < deadline
    response = fetch(wire, by_name(name, part()), session=(session_id, 0))
    assert response.error_code == ErrorCode.NONE
    assert response.session_id not in (0, session_id)


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_recalls_the_name_of_a_topic_that_was_deleted(wire: Wire, new_topic: NewTopic, version: int) -> None:
    """A session reports a deleted topic as unknown. A new topic of the same name is served to a session by name, and
    gets INCONSISTENT_TOPIC_ID in a session by id (KIP-516)."""
    name, topic_id = new_topic()
    topic = by_name(name, part()) if version < 13 else by_id(topic_id, part())
    session_id = fetch(wire, topic, version=version, session=(0, 0)).session_id
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
    assert not wire.call(DeleteTopicsResponse, 6, deletion).responses[0].error_code
    gone = only(fetch(wire, version=version, session=(session_id, 1)))
    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    again = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
    assert not wire.call(CreateTopicsResponse, 7, again).topics[0].error_code
    namesake = only(fetch(wire, version=version, session=(session_id, 2)))
    expected = ErrorCode.NONE if version < 13 else ErrorCode.INCONSISTENT_TOPIC_ID
    assert namesake.error_code == expected
