"""Tests batches of a few kilobytes that decompress to megabytes: other clients don't wait, and the broker's work for
each batch is bounded.

The tests count the bytes and records that the event loop's thread and other threads decompress and read. Some tests
block the other thread, and check that another client still gets its answers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from tests.support.batch_work import LOOP, BatchWork
from tests.support.bombs import KEYED_RECORD, SMALLEST_RECORD, batch_of, records_in_sequence
from tests.support.wire import Wire

from klamm.broker import time_slices
from klamm.core.log.batch_opening import MAXIMUM_OPENED_BYTES, MAXIMUM_OPENED_RECORDS
from klamm.protocol.api import ApiKey
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProducePartitionResponse, ProduceRequest, ProduceTopic
from klamm.protocol.produce_client import decode_produce_response, encode_produce_request
from klamm.protocol.record_batch import pack_header, read_batch_header
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest
from klamm.protocol.schema.delete_topics_response import DeleteTopicsResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse
from klamm.testing import Broker

HOUR_MS = 3_600_000
MAX_TIMESTAMP = -3
MANY = 4_000_000
"""Records of seven bytes: 28 MB, which zstd compresses to less than three kilobytes."""
LOOP_BYTES = 512 * 1024
"""The maximum of bytes that the event loop may decompress for a request."""
LOOP_RECORDS = 100_000
BEGINNING_BYTES = 2 * 1024 * 1024
"""The maximum of bytes that a first look at a batch decompresses, on the loop and on other threads."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def offender(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers, "__admin_client") as wire:
        yield wire


@pytest.fixture
def victim(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchWork]:
    work = BatchWork(monkeypatch)
    yield work
    work.release()


def new_topic(wire: Wire, *, partitions: int = 1, **configs: str) -> str:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    response = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert response.topics[0].error_code == ErrorCode.NONE
    return name


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def request_of(topic: str, *batches: bytes, acks: int = 1) -> ProduceRequest:
    """Returns a request with the batches for the partitions 0, 1 and so on."""
    partitions: list[tuple[int, memoryview | None]] = [
        (index, memoryview(records)) for index, records in enumerate(batches)
    ]
    return ProduceRequest(None, acks, 10_000, [ProduceTopic(topic, None, partitions)])


def produce(wire: Wire, topic: str, records: bytes) -> ProducePartitionResponse:
    response = wire.produce(9, request_of(topic, records))
    return response.topics[0].partitions[0]


def offset_for(wire: Wire, topic: str, timestamp: int) -> ListOffsetsPartitionResponse:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    return wire.call(ListOffsetsResponse, 7, request).topics[0].partitions[0]


def end_of(wire: Wire, topic: str) -> int:
    return offset_for(wire, topic, -1).offset


def assert_loop_was_free(work: BatchWork, requests: int = 1) -> None:
    """Checks that the event loop decompressed few bytes and records."""
    assert work.bytes[LOOP] <= requests * LOOP_BYTES
    assert work.records[LOOP] <= requests * LOOP_RECORDS


def assert_work_was_bounded(work: BatchWork, batches: int = 1) -> None:
    """Checks that all threads together decompressed and read less than the batches contain; the beginning counts
    twice."""
    assert_loop_was_free(work, batches)
    assert work.bytes.total() <= batches * (MAXIMUM_OPENED_BYTES + BEGINNING_BYTES)
    assert work.records.total() <= batches * (MAXIMUM_OPENED_RECORDS + BEGINNING_BYTES // 7)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_header_that_claims_a_time_to_come_does_not_have_all_records_looked_at(
    offender: Wire, work: BatchWork, codec: Compression
) -> None:
    """A batch of four million records whose header claims a time two hours ahead is refused after bounded work. All
    records have the same offset.

    Kafka answers UNKNOWN_SERVER_ERROR too, after three seconds.
    """
    bomb = batch_of(SMALLEST_RECORD * MANY, MANY, codec, base_timestamp=now_ms(), max_timestamp=now_ms() + 2 * HOUR_MS)
    topic = new_topic(offender)
    answer = produce(offender, topic, bomb)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert end_of(offender, topic) == 0
    assert work.bytes.total() <= BEGINNING_BYTES
    assert_work_was_bounded(work)


def test_more_good_records_than_are_looked_at(offender: Wire, work: BatchWork) -> None:
    """A batch with more records than the broker reads gets MESSAGE_TOO_LARGE, because the broker can't verify its
    header. Java's producers then split the batch."""
    count = MAXIMUM_OPENED_RECORDS + 1
    batch = batch_of(records_in_sequence(count), count, base_timestamp=now_ms(), max_timestamp=now_ms() + 2 * HOUR_MS)
    assert produce(offender, new_topic(offender), batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert_work_was_bounded(work)


def test_records_with_a_bad_time_are_named_as_ever(offender: Wire, work: BatchWork) -> None:
    """A batch with bad timestamps gets INVALID_TIMESTAMP, with the numbers of its first thousand records."""
    bomb = batch_of(SMALLEST_RECORD * MANY, MANY, base_timestamp=now_ms() + 2 * HOUR_MS)
    answer = produce(offender, new_topic(offender), bomb)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [number for number, _ in answer.record_errors] == list(range(1000))
    assert work.records.total() <= LOOP_RECORDS
    assert_work_was_bounded(work)


@pytest.mark.parametrize(
    ("record", "config", "code"),
    [
        (SMALLEST_RECORD, ("cleanup_policy", "compact"), ErrorCode.INVALID_RECORD),
        (KEYED_RECORD, ("cleanup_policy", "compact"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (SMALLEST_RECORD, ("compression_type", "uncompressed"), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=["no keys", "offsets that are the same", "does not fit uncompressed"],
)
def test_topics_that_want_to_know_what_a_batch_holds(
    offender: Wire, work: BatchWork, record: bytes, config: tuple[str, str], code: ErrorCode
) -> None:
    """A compacted topic checks keys, and a topic with its own codec decompresses every batch; the work stays
    bounded."""
    bomb = batch_of(record * MANY, MANY, base_timestamp=now_ms())
    assert produce(offender, new_topic(offender, partitions=1, **dict([config])), bomb).error_code == code
    assert_work_was_bounded(work)


def test_a_batch_that_opens_to_more_than_is_looked_at(offender: Wire, work: BatchWork) -> None:
    """A batch of four kilobytes that decompresses to one record of 100 MB gets MESSAGE_TOO_LARGE, and producers split
    it."""
    payload = b"\x80\xe1\xeb\x17" + bytes(50_000_000)
    bomb = batch_of(payload * 2, 2, base_timestamp=now_ms())
    topic = new_topic(offender, cleanup_policy="compact")
    assert produce(offender, topic, bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert_work_was_bounded(work)


def test_what_a_coordinator_reads_back_opens_to_little(offender: Wire, work: BatchWork) -> None:
    """The broker refuses a batch for `__consumer_offsets` that would make the coordinator decompress megabytes when it
    loads."""
    for _ in range(100):
        found = offender.call(FindCoordinatorResponse, 3, FindCoordinatorRequest(key="group"))
        if not found.error_code:
            break
        time.sleep(0.1)
    bomb = batch_of(records_in_sequence(500_000), 500_000, base_timestamp=now_ms())
    assert produce(offender, "__consumer_offsets", bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert_work_was_bounded(work)


def test_small_batches_for_many_partitions_share_one_allowance(offender: Wire, work: BatchWork) -> None:
    """A hundred batches of one request, which decompress to 100 KB each, share the event loop's limit for one
    request."""
    count = 12_000
    bomb = batch_of(records_in_sequence(count), count, base_timestamp=now_ms())
    topic = new_topic(offender, partitions=100, cleanup_policy="compact")
    (answers,) = offender.produce(9, request_of(topic, *[bomb] * 100)).topics
    assert [answer.error_code for answer in answers.partitions] == [ErrorCode.NONE] * 100
    assert [answer.index for answer in answers.partitions] == list(range(100))
    assert_loop_was_free(work)


def test_an_answer_names_a_thousand_records_of_all_batches(offender: Wire, work: BatchWork) -> None:
    """An answer names at most a thousand bad records in one partition and one record in each other partition."""
    count = 1000
    bomb = batch_of(SMALLEST_RECORD * count, count, base_timestamp=now_ms() + 2 * HOUR_MS)
    topic = new_topic(offender, partitions=50)
    (answers,) = offender.produce(9, request_of(topic, *[bomb] * 50)).topics
    assert [answer.error_code for answer in answers.partitions] == [ErrorCode.INVALID_TIMESTAMP] * 50
    assert sorted(len(answer.record_errors) for answer in answers.partitions) == [1] * 49 + [1000]
    assert work.records[LOOP] <= count
    assert_loop_was_free(work)


def test_very_many_records_that_are_not_compressed(offender: Wire, work: BatchWork) -> None:
    """A batch with a megabyte of uncompressed records is checked on another thread."""
    count = 140_000
    batch = batch_of(
        SMALLEST_RECORD * count,
        count,
        Compression.NONE,
        base_timestamp=now_ms(),
        max_timestamp=now_ms() + 2 * HOUR_MS,
    )
    topic = new_topic(offender)
    assert produce(offender, topic, batch).error_code == ErrorCode.NONE
    assert end_of(offender, topic) == count
    assert_work_was_bounded(work)


@pytest.mark.parametrize("turn_s", [0.0, 600.0], ids=["in turns", "at once"])
@pytest.mark.parametrize("is_claim_true", [True, False])
def test_looking_up_a_time_in_a_batch_that_holds_much(
    offender: Wire, work: BatchWork, monkeypatch: pytest.MonkeyPatch, is_claim_true: bool, turn_s: float
) -> None:
    """A search by timestamp returns the record, or the first record that the broker did not read; no earlier record
    matches.

    The result is the same whether or not the request yields to other requests.
    """
    monkeypatch.setattr(time_slices, "STEP_S", turn_s)
    now = now_ms()
    bomb = batch_of(SMALLEST_RECORD * MANY, MANY, base_timestamp=now, max_timestamp=now + (not is_claim_true))
    topic = new_topic(offender)
    assert produce(offender, topic, bomb).error_code == ErrorCode.NONE
    expected = 0 if is_claim_true else MAXIMUM_OPENED_RECORDS
    assert offset_for(offender, topic, now + (not is_claim_true)).offset == expected
    assert offset_for(offender, topic, MAX_TIMESTAMP).offset == expected
    assert_work_was_bounded(work, batches=2)


def test_a_batch_that_can_not_be_opened_is_an_error_of_its_partition(offender: Wire, work: BatchWork) -> None:
    """A batch that can't be decompressed, which the broker first reads in a search, is an error of its partition
    only."""
    now = now_ms()
    good = batch_of(SMALLEST_RECORD * MANY, MANY, base_timestamp=now)
    payload = bytes(3000)
    bad = pack_header(read_batch_header(good), payload) + payload
    topic = new_topic(offender, partitions=3)
    (answers,) = offender.produce(9, request_of(topic, bad, good, bad)).topics
    assert [answer.error_code for answer in answers.partitions] == [ErrorCode.NONE] * 3
    partitions = [ListOffsetsPartition(partition_index=each, timestamp=now + each // 2 * 9) for each in range(3)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])
    found = offender.call(ListOffsetsResponse, 7, request).topics[0].partitions
    assert [(each.error_code, each.offset) for each in found] == [
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, -1),  # No batch has so late a timestamp.
    ]


def test_headers_that_lie_are_believed_in_the_end(offender: Wire, work: BatchWork) -> None:
    """A search by timestamp decompresses a limited number of batches whose header is wrong, not the whole log."""
    now = now_ms()
    topic = new_topic(offender)
    count = 100_000
    bomb = batch_of(SMALLEST_RECORD * count, count, base_timestamp=now, max_timestamp=now + HOUR_MS - 60_000)
    for _ in range(40):
        assert produce(offender, topic, bomb).error_code == ErrorCode.NONE
    work.records.clear()
    assert offset_for(offender, topic, now + 1).offset == 16 * count
    assert work.records.total() - work.records[LOOP] == 16 * count
    assert_loop_was_free(work)


def test_other_clients_are_answered_meanwhile(offender: Wire, victim: Wire, work: BatchWork) -> None:
    """The broker answers other clients while it checks a large batch."""
    topic, other = new_topic(offender), new_topic(victim)
    bomb = batch_of(SMALLEST_RECORD * MANY, MANY, base_timestamp=now_ms(), max_timestamp=now_ms() + 2 * HOUR_MS)
    work.hold()
    offender.send(ApiKey.PRODUCE, 9, encode_produce_request(9, request_of(topic, bomb)))
    assert work.is_held.wait(60)
    assert produce(victim, other, encode_batch([(now_ms(), b"k", b"v", ())])).error_code == ErrorCode.NONE
    assert end_of(victim, other) == 1
    work.release()
    answer = decode_produce_response(9, offender.receive(ApiKey.PRODUCE, 9))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("acks", [0, 1])
def test_requests_of_a_connection_keep_their_order(offender: Wire, victim: Wire, work: BatchWork, acks: int) -> None:
    """A small batch that follows a large one on a connection is appended after it, in the same and in another
    partition."""
    topic = new_topic(offender, partitions=2, cleanup_policy="compact")
    large = batch_of(records_in_sequence(100_000), 100_000, base_timestamp=now_ms())
    small = encode_batch([(now_ms(), b"k", b"v", ())])
    work.hold()
    for records in (large, small):
        offender.send(ApiKey.PRODUCE, 9, encode_produce_request(9, request_of(topic, records, small, acks=acks)))
    assert work.is_held.wait(60)
    assert end_of(victim, topic) == 0
    work.release()
    if acks:
        first = decode_produce_response(9, offender.receive(ApiKey.PRODUCE, 9, requests_behind=1))
        second = decode_produce_response(9, offender.receive(ApiKey.PRODUCE, 9))
        assert [answer.base_offset for answer in first.topics[0].partitions] == [0, 0]
        assert [answer.base_offset for answer in second.topics[0].partitions] == [100_000, 1]
    else:
        assert end_of(offender, topic) == 100_001


def test_a_topic_that_goes_while_its_batch_is_opened(offender: Wire, victim: Wire, work: BatchWork) -> None:
    """A batch whose topic is deleted while the batch is decompressed gets UNKNOWN_TOPIC_OR_PARTITION."""
    topic = new_topic(offender, cleanup_policy="compact")
    large = batch_of(records_in_sequence(100_000), 100_000, base_timestamp=now_ms())
    work.hold()
    offender.send(ApiKey.PRODUCE, 9, encode_produce_request(9, request_of(topic, large)))
    assert work.is_held.wait(60)
    victim.call(DeleteTopicsResponse, 5, DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000))
    work.release()
    answer = decode_produce_response(9, offender.receive(ApiKey.PRODUCE, 9))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
