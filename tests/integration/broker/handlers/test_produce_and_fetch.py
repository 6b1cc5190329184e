"""Produce and Fetch on the wire: every version, acks, long polls, sessions, errors."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest
from tests.support.wire import Wire

from klamm.protocol.api import ApiKey
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import FetchResponse, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.produce_client import encode_produce_request
from klamm.protocol.records import decode_records, encode_batch
from klamm.protocol.types import Millis, ProducerEpoch, ProducerId, TopicId
from klamm.testing import Broker

NewTopic = Callable[..., tuple[str, TopicId]]

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)


def batch(*values: bytes, key: bytes | None = None, **options: object) -> bytes:
    now = Millis(time.time_ns() // 1_000_000)
    return encode_batch([(now, key, value, ()) for value in values], **options)  # type: ignore[arg-type]


def produce_request(
    version: int, name: str, topic_id: TopicId, records: bytes | None, *, index: int = 0, acks: int = -1
) -> ProduceRequest:
    is_by_id = version >= 13
    view = None if records is None else memoryview(records)
    topic = ProduceTopic(None if is_by_id else name, topic_id if is_by_id else None, [(index, view)])
    return ProduceRequest(None, acks, 10_000, [topic])


def fetch_request(
    version: int,
    name: str,
    topic_id: TopicId,
    offset: int,
    *,
    index: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    leader_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    partition_max_bytes: int = 1_000_000,
) -> FetchRequest:
    is_by_id = version >= 13
    partition = FetchPartition(index, leader_epoch, offset, -1, -1, partition_max_bytes)
    topic = FetchTopic(None if is_by_id else name, topic_id if is_by_id else None, [partition])
    return FetchRequest(-1, max_wait_ms, min_bytes, 50_000_000, 0, *session, [topic], [])


def values(response: FetchResponse) -> list[bytes | None]:
    (topic,) = response.topics
    records = topic.partitions[0].records
    assert isinstance(records, bytes | memoryview)
    return [record.value for record in decode_records(memoryview(records))]


def only_partition(response: FetchResponse) -> tuple[int, int, int]:
    """Returns (error code, high watermark, log start offset) of the first partition."""
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.high_watermark, partition.log_start_offset


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_every_version_of_produce_appends(wire: Wire, new_topic: NewTopic, version: int) -> None:
    """Each version of Produce returns the base offset of the appended batch; version 13 names the topic by id."""
    name, topic_id = new_topic()
    for expected in (0, 2):
        response = wire.produce(version, produce_request(version, name, topic_id, batch(b"a", b"b")))
        (partition,) = response.topics[0].partitions
        assert (partition.error_code, partition.base_offset) == (ErrorCode.NONE, expected)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_every_version_of_fetch_reads(wire: Wire, new_topic: NewTopic, version: int) -> None:
    """Each version of Fetch returns the records, the high watermark and the log start offset (from version 5); version
    13 and later name the topic by id."""
    name, topic_id = new_topic()
    wire.produce(9, produce_request(9, name, topic_id, batch(b"a", b"b", b"c")))
    response = wire.fetch(version, fetch_request(version, name, topic_id, 0))
    assert values(response) == [b"a", b"b", b"c"]
    assert only_partition(response) == (ErrorCode.NONE, 3, 0 if version >= 5 else -1)


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches_pass_through_untouched(wire: Wire, new_topic: NewTopic, compression: Compression) -> None:
    """A fetched batch equals the produced batch byte for byte after the fields that the leader sets."""
    name, topic_id = new_topic()
    sent = batch(b"x" * 500, b"y" * 500, compression=compression)
    wire.produce(9, produce_request(9, name, topic_id, sent))
    received = wire.fetch(12, fetch_request(12, name, topic_id, 0)).topics[0].partitions[0].records
    assert isinstance(received, memoryview)
    assert bytes(received[16:]) == sent[16:]


def test_zstd_needs_produce_7(wire: Wire, new_topic: NewTopic) -> None:
    """A client that speaks Produce 6 can't send zstd (KIP-110)."""
    name, topic_id = new_topic()
    sent = batch(b"x", compression=Compression.ZSTD)
    response = wire.produce(6, produce_request(6, name, topic_id, sent))
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_unknown_topics_and_partitions(wire: Wire, new_topic: NewTopic) -> None:
    """An unknown topic name gets UNKNOWN_TOPIC_OR_PARTITION, an unknown topic id UNKNOWN_TOPIC_ID; an unknown partition
    gets UNKNOWN_TOPIC_OR_PARTITION."""
    name, topic_id = new_topic()
    strange = TopicId(b"\1" * 16)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    for version, code in zip((12, 13), unknown, strict=True):
        produced = wire.produce(version, produce_request(version, "nobody", strange, batch(b"a")))
        assert produced.topics[0].partitions[0].error_code == code
        fetched = wire.fetch(version, fetch_request(version, "nobody", strange, 0))
        assert only_partition(fetched)[0] == code
    for version in (12, 13):
        produced = wire.produce(version, produce_request(version, name, topic_id, batch(b"a"), index=7))
        assert produced.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        fetched = wire.fetch(version, fetch_request(version, name, topic_id, 0, index=7))
        assert only_partition(fetched)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
        (batch(b"abc")[:-1] + b"\x7f", ErrorCode.CORRUPT_MESSAGE),
        (batch(b"a")[:16] + b"\1" + batch(b"a")[17:], ErrorCode.INVALID_RECORD),
        (batch(b"a", is_control=True), ErrorCode.INVALID_RECORD),
    ],
    ids=["null", "empty", "two batches", "bad checksum", "magic 1", "control batch"],
)
def test_bad_batches_are_refused(wire: Wire, new_topic: NewTopic, records: bytes | None, code: ErrorCode) -> None:
    """An invalid batch gets Kafka's error code, and no part of the batch is stored."""
    name, topic_id = new_topic()
    response = wire.produce(9, produce_request(9, name, topic_id, records))
    assert response.topics[0].partitions[0].error_code == code
    assert only_partition(wire.fetch(12, fetch_request(12, name, topic_id, 0)))[:2] == (ErrorCode.NONE, 0)


def test_a_refusal_says_where_the_log_starts_and_explains_only_single_records(wire: Wire, new_topic: NewTopic) -> None:
    """A refusal by the log contains the log start offset; an error message comes only with errors of single records, as
    in Kafka."""
    name, topic_id = new_topic(max_message_bytes="1000", cleanup_policy="compact")
    sent = [
        (batch(b"a", base_offset=7), ErrorCode.INVALID_RECORD, 0),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD, -1),
        (batch(b"a" * 1000), ErrorCode.MESSAGE_TOO_LARGE, -1),
        (batch(b"a", producer_id=1, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD, 0),
    ]
    for records, code, start in sent:
        (refused,) = wire.produce(9, produce_request(9, name, topic_id, records)).topics[0].partitions
        assert (refused.error_code, refused.log_start_offset, refused.error_message) == (code, start, None)
    (refused,) = wire.produce(9, produce_request(9, name, topic_id, batch(b"a", b"b"))).topics[0].partitions
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert [index for index, _ in refused.record_errors] == [0, 1]
    assert refused.error_message is not None


def test_a_partition_that_is_named_twice_is_written_once(wire: Wire, new_topic: NewTopic) -> None:
    """If a request names a partition twice, the last batch is written, as in Kafka. Each topic is answered once, and a
    topic without partitions is left out."""
    name, topic_id = new_topic(2)
    first, last, other = (memoryview(batch(value)) for value in (b"first", b"last", b"other"))
    topics = [
        ProduceTopic(name, None, [(0, first)]),
        ProduceTopic(name, None, [(1, other), (0, last)]),
        ProduceTopic("empty", None, []),
    ]
    (answer,) = wire.produce(9, ProduceRequest(None, -1, 10_000, topics)).topics
    assert [(each.index, each.base_offset) for each in answer.partitions] == [(0, 0), (1, 0)]
    assert values(wire.fetch(12, fetch_request(12, name, topic_id, 0))) == [b"last"]


def test_transactional_batches_refuse_the_request_before_anything_is_written(wire: Wire, new_topic: NewTopic) -> None:
    """A transactional batch without a transactional id fails the whole request before any write, as in Kafka; a
    transactional id without transactional batches is ignored."""
    name, topic_id = new_topic(2)
    plain, transactional = memoryview(batch(b"a")), memoryview(batch(b"b", is_transactional=True))
    topics = [ProduceTopic(name, None, [(0, plain), (1, transactional)])]
    (answer,) = wire.produce(9, ProduceRequest(None, -1, 10_000, topics)).topics
    assert {each.error_code for each in answer.partitions} == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert only_partition(wire.fetch(12, fetch_request(12, name, topic_id, 0)))[:2] == (ErrorCode.NONE, 0)
    (answer,) = wire.produce(9, ProduceRequest("t", -1, 10_000, [ProduceTopic(name, None, [(0, plain)])])).topics
    assert answer.partitions[0].error_code == ErrorCode.NONE


def test_too_large_a_batch_is_refused(wire: Wire, new_topic: NewTopic) -> None:
    """A batch above max.message.bytes gets MESSAGE_TOO_LARGE."""
    name, topic_id = new_topic(max_message_bytes="1000")
    response = wire.produce(9, produce_request(9, name, topic_id, batch(b"x" * 1000)))
    assert response.topics[0].partitions[0].error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_records_without_key_are_refused_where_keys_are_compacted(wire: Wire, new_topic: NewTopic) -> None:
    """A compacted topic accepts only records with a key."""
    name, topic_id = new_topic(cleanup_policy="compact")
    refused = wire.produce(9, produce_request(9, name, topic_id, batch(b"a")))
    assert refused.topics[0].partitions[0].error_code == ErrorCode.INVALID_RECORD
    taken = wire.produce(9, produce_request(9, name, topic_id, batch(b"a", key=b"k")))
    assert taken.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_internal_topics_are_not_for_producers(wire: Wire, served: Broker) -> None:
    """A producer without Kafka's reserved client id gets INVALID_TOPIC_EXCEPTION for __consumer_offsets."""
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": served.bootstrap_servers, "group.id": "makes-the-topic"})
    consumer.subscribe(["nothing-there"])
    consumer.poll(1)
    consumer.close()
    response = wire.produce(9, produce_request(9, "__consumer_offsets", TopicId(bytes(16)), batch(b"a", key=b"k")))
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_invalid_acks(wire: Wire, new_topic: NewTopic) -> None:
    """An acks value other than 0, 1 and -1 gets INVALID_REQUIRED_ACKS."""
    name, topic_id = new_topic()
    response = wire.produce(9, produce_request(9, name, topic_id, batch(b"a"), acks=2))
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_0_is_stored_without_an_answer(wire: Wire, new_topic: NewTopic) -> None:
    """A Produce with acks=0 is stored and gets no response; the next response belongs to the next request."""
    name, topic_id = new_topic()
    wire.send(ApiKey.PRODUCE, 9, encode_produce_request(9, produce_request(9, name, topic_id, batch(b"a"), acks=0)))
    assert values(wire.fetch(12, fetch_request(12, name, topic_id, 0))) == [b"a"]


def test_an_error_with_acks_0_closes_the_connection(wire: Wire) -> None:
    """An error with acks=0 closes the connection, because the producer gets no response that could contain the
    error."""
    request = produce_request(9, "nobody", TopicId(bytes(16)), batch(b"a"), acks=0)
    with pytest.raises(ConnectionError):
        wire.exchange(ApiKey.PRODUCE, 9, encode_produce_request(9, request))


def test_idempotent_producer(wire: Wire, new_topic: NewTopic) -> None:
    """I10: a retry of any of the last five batches returns the base offset of the first attempt; a sequence gap is
    refused."""
    name, topic_id = new_topic()

    def send(sequence: int) -> tuple[int, int]:
        records = batch(b"v", producer_id=ProducerId(77), producer_epoch=ProducerEpoch(0), base_sequence=sequence)
        partition = wire.produce(9, produce_request(9, name, topic_id, records)).topics[0].partitions[0]
        return partition.error_code, partition.base_offset

    for sequence in range(7):
        assert send(sequence) == (ErrorCode.NONE, sequence)
    for sequence in range(2, 7):
        assert send(sequence) == (ErrorCode.NONE, sequence)
    assert send(1)[0] in (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert send(9)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(7) == (ErrorCode.NONE, 7)


def test_fetch_beyond_the_end(wire: Wire, new_topic: NewTopic) -> None:
    """A fetch at the log end offset returns no records; an offset beyond the end or a negative one gets
    OFFSET_OUT_OF_RANGE."""
    name, topic_id = new_topic()
    wire.produce(9, produce_request(9, name, topic_id, batch(b"a")))
    assert values(wire.fetch(12, fetch_request(12, name, topic_id, 1))) == []
    assert only_partition(wire.fetch(12, fetch_request(12, name, topic_id, 2)))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert only_partition(wire.fetch(12, fetch_request(12, name, topic_id, -5)))[0] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_leader_epochs_are_checked(wire: Wire, new_topic: NewTopic) -> None:
    """A fetch with a newer leader epoch gets UNKNOWN_LEADER_EPOCH (KIP-320)."""
    name, topic_id = new_topic()
    wire.produce(9, produce_request(9, name, topic_id, batch(b"a")))
    newer = wire.fetch(12, fetch_request(12, name, topic_id, 0, leader_epoch=99))
    assert only_partition(newer)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_at_least_one_batch_is_returned(wire: Wire, new_topic: NewTopic) -> None:
    """A batch larger than the limits is returned whole, so that a consumer can read past it (KIP-74)."""
    name, topic_id = new_topic()
    wire.produce(9, produce_request(9, name, topic_id, batch(b"x" * 5000)))
    response = wire.fetch(12, fetch_request(12, name, topic_id, 0, partition_max_bytes=10))
    assert values(response) == [b"x" * 5000]


def test_long_poll_ends_with_an_append(wire: Wire, new_topic: NewTopic, served: Broker) -> None:
    """A fetch at the log end waits, and is answered as soon as enough bytes are appended, before max_wait_ms."""
    name, topic_id = new_topic()

    def produce_later() -> None:
        with Wire(served.bootstrap_servers) as other:
            time.sleep(0.2)
            other.produce(9, produce_request(9, name, topic_id, batch(b"a")))

    thread = threading.Thread(target=produce_later)
    thread.start()
    response = wire.fetch(12, fetch_request(12, name, topic_id, 0, max_wait_ms=19_000))
    thread.join()
    assert values(response) == [b"a"]


def test_long_poll_waits_for_its_minimum(wire: Wire, new_topic: NewTopic, served: Broker) -> None:
    """A fetch waits until two appends together reach min_bytes, and returns both."""
    name, topic_id = new_topic()

    def produce_later() -> None:
        with Wire(served.bootstrap_servers) as other:
            for _ in range(2):
                time.sleep(0.1)
                other.produce(9, produce_request(9, name, topic_id, batch(b"x" * 600)))

    thread = threading.Thread(target=produce_later)
    thread.start()
    response = wire.fetch(12, fetch_request(12, name, topic_id, 0, max_wait_ms=19_000, min_bytes=1000))
    thread.join()
    assert len(values(response)) == 2


def test_long_poll_ends_when_its_time_is_up(wire: Wire, new_topic: NewTopic) -> None:
    """A fetch that gets no records within max_wait_ms returns an empty response with the high watermark."""
    name, topic_id = new_topic()
    response = wire.fetch(12, fetch_request(12, name, topic_id, 0, max_wait_ms=50))
    assert values(response) == []
    assert only_partition(response) == (ErrorCode.NONE, 0, 0)


@pytest.mark.parametrize(("resets", "max_wait_ms"), [(True, 19_000), (False, 500)])
def test_a_client_that_goes_away_while_it_waits_leaves_nothing(
    new_topic: NewTopic, served: Broker, resets: bool, max_wait_ms: int
) -> None:
    """A waiting fetch stops observing the partition when its connection is reset. After an orderly close, which looks
    like a client that still listens, the fetch stops at its timeout."""
    name, topic_id = new_topic()
    with Wire(served.bootstrap_servers) as other:
        body = encode_fetch_request(12, fetch_request(12, name, topic_id, 0, max_wait_ms=max_wait_ms))
        other.send(ApiKey.FETCH, 12, body)
        wait_until(lambda: observers(served, name) == 1)
        if resets:
            other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: observers(served, name) == 0)


def observers(broker: Broker, topic: str) -> int:
    from klamm.broker.server import BrokerServer

    async def count(server: BrokerServer) -> int:
        assert server.context is not None
        return server.context.partitions.get(topic, 0).observer_count

    return broker.run_in_broker(count)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 10 s"
        time.sleep(0.01)


@pytest.mark.parametrize("version", [7, 12, 13, 17])
def test_fetch_session_answers_only_what_changed(wire: Wire, new_topic: NewTopic, version: int) -> None:
    """The first response of a session has all partitions, later responses only those with changes (KIP-227)."""
    name, topic_id = new_topic(2)
    is_by_id = version >= 13
    key = (None if is_by_id else name, topic_id if is_by_id else None)

    def partition(index: int, offset: int) -> FetchPartition:
        return FetchPartition(index, -1, offset, -1, -1, 1_000_000)

    def fetch(session: tuple[int, int], *partitions: FetchPartition, forget: list[int] | None = None) -> FetchResponse:
        topics = [FetchTopic(*key, list(partitions))] if partitions else []
        forgotten = [ForgottenTopic(*key, forget)] if forget else []
        return wire.fetch(version, FetchRequest(-1, 0, 1, 50_000_000, 0, *session, topics, forgotten))

    first = fetch((0, 0), partition(0, 0), partition(1, 0))
    session_id = first.session_id
    assert session_id > 0
    assert [p.index for p in first.topics[0].partitions] == [0, 1]
    assert fetch((session_id, 1)).topics == []
    wire.produce(9, produce_request(9, name, topic_id, batch(b"a"), index=1))
    third = fetch((session_id, 2))
    assert [p.index for p in third.topics[0].partitions] == [1]
    assert values(third) == [b"a"]
    assert [p.index for p in fetch((session_id, 3)).topics[0].partitions] == [1]  # the fetch offset is the same
    assert fetch((session_id, 4), partition(1, 1)).topics == []
    wire.produce(9, produce_request(9, name, topic_id, batch(b"b"), index=0))
    assert fetch((session_id, 5), forget=[0]).topics == []
    assert fetch((session_id, 9)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert fetch((session_id + 1, 6)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetch((session_id, -1)).error_code == ErrorCode.NONE  # closes the session
    assert fetch((session_id, 6)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_by_name_and_by_id_do_not_mix(wire: Wire, new_topic: NewTopic) -> None:
    """A session that began with topic names can't continue with topic ids."""
    name, topic_id = new_topic()
    session_id = wire.fetch(12, fetch_request(12, name, topic_id, 0, session=(0, 0))).session_id
    response = wire.fetch(13, fetch_request(13, name, topic_id, 0, session=(session_id, 1)))
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
