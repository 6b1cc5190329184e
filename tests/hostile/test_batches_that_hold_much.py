"""Batches of a few kilobytes that open to megabytes, next to clients that behave: nobody waits for them but who sent
them, and the broker does a bounded piece of work for each.

Counted is what the event loop's own thread opens and walks over. Of what is opened elsewhere the thread is held up, and
the other client is answered all the same.
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
"""Records of seven bytes: 28 MB, of which zstd makes less than three kilobytes."""
LOOP_BYTES = 512 * 1024
"""What a request may have opened on the event loop."""
LOOP_RECORDS = 100_000
BEGINNING_BYTES = 2 * 1024 * 1024
"""What is opened for a first look, on the loop and elsewhere."""


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
    """A request that has the batches for partition 0, 1 and so on."""
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
    """The loop has opened little, whatever the batches hold."""
    assert work.bytes[LOOP] <= requests * LOOP_BYTES
    assert work.records[LOOP] <= requests * LOOP_RECORDS


def assert_work_was_bounded(work: BatchWork, batches: int = 1) -> None:
    """Less than all that the batches hold was opened and walked over, and the beginning twice."""
    assert_loop_was_free(work, batches)
    assert work.bytes.total() <= batches * (MAXIMUM_OPENED_BYTES + BEGINNING_BYTES)
    assert work.records.total() <= batches * (MAXIMUM_OPENED_RECORDS + BEGINNING_BYTES // 7)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_header_that_claims_a_time_to_come_does_not_have_all_records_looked_at(
    offender: Wire, work: BatchWork, codec: Compression
) -> None:
    """Four million records in a batch whose header says that one is two hours ahead. All have the same offset.

    Kafka answers UNKNOWN_SERVER_ERROR, too, after three seconds.
    """
    bomb = batch_of(SMALLEST_RECORD * MANY, MANY, codec, base_timestamp=now_ms(), max_timestamp=now_ms() + 2 * HOUR_MS)
    topic = new_topic(offender)
    answer = produce(offender, topic, bomb)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert end_of(offender, topic) == 0
    assert work.bytes.total() <= BEGINNING_BYTES
    assert_work_was_bounded(work)


def test_more_good_records_than_are_looked_at(offender: Wire, work: BatchWork) -> None:
    """What a header claims can't be told, so the batch is too large; Java's producers split it."""
    count = MAXIMUM_OPENED_RECORDS + 1
    batch = batch_of(records_in_sequence(count), count, base_timestamp=now_ms(), max_timestamp=now_ms() + 2 * HOUR_MS)
    assert produce(offender, new_topic(offender), batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert_work_was_bounded(work)


def test_records_with_a_bad_time_are_named_as_ever(offender: Wire, work: BatchWork) -> None:
    """The first thousand decide: INVALID_TIMESTAMP, and which they are."""
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
    """A compacted topic looks for keys, and one with a codec of its own opens every batch."""
    bomb = batch_of(record * MANY, MANY, base_timestamp=now_ms())
    assert produce(offender, new_topic(offender, partitions=1, **dict([config])), bomb).error_code == code
    assert_work_was_bounded(work)


def test_a_batch_that_opens_to_more_than_is_looked_at(offender: Wire, work: BatchWork) -> None:
    """One record of 100 MB in four kilobytes: MESSAGE_TOO_LARGE, after which Java's producers split a batch."""
    payload = b"\x80\xe1\xeb\x17" + bytes(50_000_000)
    bomb = batch_of(payload * 2, 2, base_timestamp=now_ms())
    topic = new_topic(offender, cleanup_policy="compact")
    assert produce(offender, topic, bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert_work_was_bounded(work)


def test_what_a_coordinator_reads_back_opens_to_little(offender: Wire, work: BatchWork) -> None:
    """Who may write to `__consumer_offsets` can't have the coordinator open megabytes when it loads."""
    for _ in range(100):
        found = offender.call(FindCoordinatorResponse, 3, FindCoordinatorRequest(key="group"))
        if not found.error_code:
            break
        time.sleep(0.1)
    bomb = batch_of(records_in_sequence(500_000), 500_000, base_timestamp=now_ms())
    assert produce(offender, "__consumer_offsets", bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert_work_was_bounded(work)


def test_small_batches_for_many_partitions_share_one_allowance(offender: Wire, work: BatchWork) -> None:
    """A hundred batches that open to 100 KB each, in one request."""
    count = 12_000
    bomb = batch_of(records_in_sequence(count), count, base_timestamp=now_ms())
    topic = new_topic(offender, partitions=100, cleanup_policy="compact")
    (answers,) = offender.produce(9, request_of(topic, *[bomb] * 100)).topics
    assert [answer.error_code for answer in answers.partitions] == [ErrorCode.NONE] * 100
    assert [answer.index for answer in answers.partitions] == list(range(100))
    assert_loop_was_free(work)


def test_an_answer_names_a_thousand_records_of_all_batches(offender: Wire, work: BatchWork) -> None:
    """A batch of a hundred bytes can have a thousand bad records, and a request many such batches."""
    count = 1000
    bomb = batch_of(SMALLEST_RECORD * count, count, base_timestamp=now_ms() + 2 * HOUR_MS)
    topic = new_topic(offender, partitions=50)
    (answers,) = offender.produce(9, request_of(topic, *[bomb] * 50)).topics
    assert [answer.error_code for answer in answers.partitions] == [ErrorCode.INVALID_TIMESTAMP] * 50
    assert sorted(len(answer.record_errors) for answer in answers.partitions) == [1] * 49 + [1000]
    assert work.records[LOOP] <= count
    assert_loop_was_free(work)


def test_very_many_records_that_are_not_compressed(offender: Wire, work: BatchWork) -> None:
    """A megabyte of them is walked over elsewhere."""
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
    """The answer is the record, or the first one that was not looked at: no record of that time lies before it.

    Whether the request has to let others have their turn afterwards or not.
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
    """Nobody has looked into the batch before. The other partitions are answered."""
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
        (ErrorCode.NONE, -1),  # No batch claims to be so young.
    ]


def test_headers_that_lie_are_believed_in_the_end(offender: Wire, work: BatchWork) -> None:
    """A search by time opens some batches in vain, not all of a log."""
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
    """Not only once the batch has been looked at."""
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
    """A small batch that follows a large one is appended after it, be its partition the same or another one."""
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
    """The batch is refused as one that came a moment later."""
    topic = new_topic(offender, cleanup_policy="compact")
    large = batch_of(records_in_sequence(100_000), 100_000, base_timestamp=now_ms())
    work.hold()
    offender.send(ApiKey.PRODUCE, 9, encode_produce_request(9, request_of(topic, large)))
    assert work.is_held.wait(60)
    victim.call(DeleteTopicsResponse, 5, DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000))
    work.release()
    answer = decode_produce_response(9, offender.receive(ApiKey.PRODUCE, 9))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
