"""Produce and Fetch requests for very many partitions get the same responses as requests for few partitions."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from tests.integration.broker.handlers.test_produce_and_fetch import FETCH_VERSIONS, PRODUCE_VERSIONS, batch
from tests.support.wire import Wire

from klamm.broker import time_slices
from klamm.broker.handlers import fetch
from klamm.broker.partitions import wide_fetch, wide_produce
from klamm.broker.partitions.batch_opener import OpeningAllowance
from klamm.broker.server import BrokerServer
from klamm.core.log.batch_opening import BatchOpening
from klamm.protocol import produce
from klamm.protocol.api import ApiKey
from klamm.protocol.compression import OpenedData
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import FetchResponse, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.produce_client import encode_produce_request
from klamm.protocol.records import decode_records
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.types import TopicId
from klamm.testing import Broker

PARTITIONS = 7
UNKNOWN_ID = TopicId(b"?" * 16)


@pytest.fixture(scope="module", params=["none", "ack"])
def served(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Runs a broker whose commits wait for the disk, and one whose commits don't."""
    with Broker(config={"klamm.fsync": request.param} if request.param == "ack" else {}) as broker:
        yield broker


@pytest.fixture
def wire(served: Broker) -> Iterator[Wire]:
    """Opens a raw connection."""
    with Wire(served.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def topic(wire: Wire) -> tuple[str, TopicId]:
    """Creates a topic; returns its name and id."""
    name = f"topic-{time.monotonic_ns()}"
    wish = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    answer = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[wish], timeout_ms=10_000))
    return name, TopicId(answer.topics[0].topic_id)


def take_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the broker treat every request as one for many partitions, in steps of one or two partitions."""
    monkeypatch.setattr(produce, "_MOST_AT_ONCE", 0)
    monkeypatch.setattr(wide_produce, "PARTITIONS_AT_ONCE", 2)
    monkeypatch.setattr(fetch, "READ_AT_ONCE_BYTES", 0)
    monkeypatch.setattr(fetch, "MOST_AT_ONCE", 0)
    monkeypatch.setattr(wide_fetch, "PARTITIONS_AT_ONCE", 2)
    monkeypatch.setattr(time_slices, "STEP_S", -1.0)


def produce_request(version: int, topic: tuple[str, TopicId], indexes: list[int], acks: int = -1) -> ProduceRequest:
    """Returns a request with a record for each partition, and a batch for an unknown topic."""
    name, topic_id = topic
    records: list[tuple[int, memoryview | None]] = [(index, memoryview(batch(b"%d" % index))) for index in indexes]
    if version >= 13:
        topics = [ProduceTopic(None, topic_id, records), ProduceTopic(None, UNKNOWN_ID, records[:1])]
    else:
        topics = [ProduceTopic(name, None, records), ProduceTopic("unknown", None, records[:1])]
    return ProduceRequest(None, acks, 10_000, topics)


def fetch_request(
    version: int, topic: tuple[str, TopicId], indexes: list[int], *, session: tuple[int, int] = (0, -1), **options: int
) -> FetchRequest:
    """Returns a fetch request for all partitions from offset 0, and for one partition of an unknown topic."""
    name, topic_id = topic
    wanted = [FetchPartition(index, -1, 0, -1, -1, 1_000_000) for index in indexes]
    if version >= 13:
        topics = [FetchTopic(None, UNKNOWN_ID, wanted[:1]), FetchTopic(None, topic_id, wanted)]
    else:
        topics = [FetchTopic("unknown", None, wanted[:1]), FetchTopic(name, None, wanted)]
    values = {"max_wait_ms": 0, "min_bytes": 1, "isolation_level": 0} | options
    return FetchRequest(
        -1, values["max_wait_ms"], values["min_bytes"], 50_000_000, values["isolation_level"], *session, topics, []
    )


def without_session_id(response: FetchResponse) -> object:
    """Replaces the session id by whether there is one, so that responses of two sessions can be compared."""
    return response._replace(session_id=bool(response.session_id))


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_answers_as_for_few(
    monkeypatch: pytest.MonkeyPatch, wire: Wire, topic: tuple[str, TopicId], version: int
) -> None:
    """A Produce in steps gets the same response as one at once, with the next offsets. A partition that is named twice
    is answered once."""
    indexes = [*range(PARTITIONS), 1, 99]
    first = wire.produce(version, produce_request(version, topic, indexes))
    take_many_partitions(monkeypatch)
    second = wire.produce(version, produce_request(version, topic, indexes))
    for before, after in zip(first.topics, second.topics, strict=True):
        assert [each.index for each in after.partitions] == [each.index for each in before.partitions]
        for one, other in zip(before.partitions, after.partitions, strict=True):
            assert other.base_offset == (one.base_offset + 1 if one.error_code == 0 else one.base_offset)
            assert other._replace(base_offset=0) == one._replace(base_offset=0)
    codes = [[each.error_code for each in of.partitions] for of in second.topics]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[0] * PARTITIONS + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], [unknown]]


def test_produce_without_an_answer(monkeypatch: pytest.MonkeyPatch, served: Broker, topic: tuple[str, TopicId]) -> None:
    """With acks=0 an error closes the connection, and the valid batches of the request are written."""
    take_many_partitions(monkeypatch)
    with Wire(served.bootstrap_servers) as other:
        request = produce_request(9, topic, list(range(PARTITIONS)), acks=0)
        other.send(ApiKey.PRODUCE, 9, encode_produce_request(9, request._replace(topics=request.topics[:1])))
        other.send(ApiKey.PRODUCE, 9, encode_produce_request(9, request))
        assert other.socket.recv(1) == b""
    with Wire(served.bootstrap_servers) as other:
        committed: list[int] = []
        while committed != [2] * PARTITIONS:
            time.sleep(0.01)
            response = other.fetch(12, fetch_request(12, topic, list(range(PARTITIONS))))
            (own,) = [each for each in response.topics if each.name == topic[0]]
            committed = [each.high_watermark for each in own.partitions]
            assert max(committed) <= 2


@pytest.mark.parametrize("isolation_level", [0, 1, 7])
@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_answers_as_for_few(
    monkeypatch: pytest.MonkeyPatch, wire: Wire, topic: tuple[str, TopicId], version: int, isolation_level: int
) -> None:
    """A Fetch in steps gets the same response as one at once, with or without a session, and also for an invalid
    isolation level."""
    wire.produce(9, produce_request(9, topic, [0, 2, 3]))
    indexes = [*range(PARTITIONS), 1, 99]
    session = (0, -(version % 2))
    request = fetch_request(version, topic, indexes, session=session, isolation_level=isolation_level)
    at_once = wire.fetch(version, request)
    take_many_partitions(monkeypatch)
    in_parts = wire.fetch(version, request)
    assert without_session_id(in_parts) == without_session_id(at_once)
    if isolation_level < 2:
        assert [each.index for of in in_parts.topics for each in of.partitions if each.records] == [0, 2, 3]


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_incremental_requests_of_a_wide_session(
    monkeypatch: pytest.MonkeyPatch, wire: Wire, topic: tuple[str, TopicId], version: int
) -> None:
    """An incremental fetch returns only changed partitions and no forgotten ones; a wrong session epoch is an error."""
    take_many_partitions(monkeypatch)
    name, topic_id = topic
    begun = wire.fetch(version, fetch_request(version, topic, list(range(PARTITIONS)), session=(0, 0)))
    session_id = begun.session_id
    assert session_id
    gone = ForgottenTopic(None, topic_id, [0]) if version >= 13 else ForgottenTopic(name, None, [0])
    wire.produce(9, produce_request(9, topic, [0, 2]))
    request = FetchRequest(-1, 0, 1, 50_000_000, 0, session_id, 1, [], [gone])
    response = wire.fetch(version, request)
    told = [
        (each.index, bool(each.records))
        for of in response.topics
        if of.name == name or of.topic_id == topic_id
        for each in of.partitions
    ]
    assert told == [(2, True)]
    assert wire.fetch(version, request).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_wide_fetch_waits_until_there_is_enough(
    monkeypatch: pytest.MonkeyPatch, served: Broker, wire: Wire, topic: tuple[str, TopicId], isolation_level: int
) -> None:
    """A waiting fetch of many partitions is answered when a record arrives in any of them."""
    take_many_partitions(monkeypatch)
    request = fetch_request(12, topic, list(range(PARTITIONS)), max_wait_ms=60_000, isolation_level=isolation_level)
    request = request._replace(topics=request.topics[1:])
    answers: list[FetchResponse] = []
    with Wire(served.bootstrap_servers) as other:
        waiting = threading.Thread(target=lambda: answers.append(other.fetch(12, request)))
        waiting.start()
        while not answers:
            wire.produce(9, produce_request(9, topic, [5]))
            waiting.join(0.2)
        waiting.join()
    assert [each.index for each in answers[0].topics[0].partitions if each.records] == [5]


def test_wide_fetch_has_the_records_that_ended_its_wait(
    monkeypatch: pytest.MonkeyPatch, served: Broker, wire: Wire, topic: tuple[str, TopicId]
) -> None:
    """A fetch of many partitions never ends its wait without records, even if a record arrives right after its
    partition was read."""
    take_many_partitions(monkeypatch)
    request = fetch_request(12, topic, list(range(PARTITIONS)), max_wait_ms=60_000)
    (wanted,) = request.topics[1:]
    with Wire(served.bootstrap_servers) as other:
        for number in range(100):
            partitions = [each._replace(fetch_offset=number) if each.index == 0 else each for each in wanted.partitions]
            now = request._replace(topics=[wanted._replace(partitions=partitions)])
            answers: list[FetchResponse] = []
            waiting = threading.Thread(target=lambda now=now, answers=answers: answers.append(other.fetch(12, now)))
            waiting.start()
            wire.produce(9, produce_request(9, topic, [0]))
            waiting.join()
            assert [each.index for each in answers[0].topics[0].partitions if each.records] == [0]


def test_wide_fetch_answers_when_its_time_is_up(
    monkeypatch: pytest.MonkeyPatch, wire: Wire, topic: tuple[str, TopicId]
) -> None:
    """A fetch of many partitions that gets no records returns an empty response after max_wait_ms."""
    take_many_partitions(monkeypatch)
    request = fetch_request(12, topic, [1, 2], max_wait_ms=300)
    response = wire.fetch(12, request._replace(topics=request.topics[1:]))
    assert [each.records for each in response.topics[0].partitions] == [b"", b""]


def test_wide_fetch_ends_with_its_connection(
    monkeypatch: pytest.MonkeyPatch, served: Broker, wire: Wire, topic: tuple[str, TopicId]
) -> None:
    """A waiting fetch whose connection is reset stops observing its partitions, and its session is closed."""
    take_many_partitions(monkeypatch)
    name, _ = topic

    async def observers(server: BrokerServer) -> int:
        assert server.context is not None
        partitions = server.context.partitions.by_name[name].partitions
        return sum(len(partition._observers) for partition in partitions if partition is not None)

    other = Wire(served.bootstrap_servers)
    begun = other.fetch(12, fetch_request(12, topic, [1, 2], session=(0, 0)))
    other.send(
        ApiKey.FETCH,
        12,
        encode_fetch_request(12, FetchRequest(-1, 60_000, 1, 1_000_000, 0, begun.session_id, 1, [], [])),
    )
    while served.run_in_broker(observers) != 2:
        time.sleep(0.01)
    other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no FIN
    other.socket.close()
    while served.run_in_broker(observers):
        time.sleep(0.01)
    again = FetchRequest(-1, 0, 1, 1_000_000, 0, begun.session_id, 2, [], [])
    assert wire.fetch(12, again).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_is_not_begun_for_more_partitions_than_it_may_have(
    monkeypatch: pytest.MonkeyPatch, wire: Wire, topic: tuple[str, TopicId]
) -> None:
    """A fetch of more partitions than WIDEST_SESSION gets no session, and a session that outgrows the limit is
    closed."""
    take_many_partitions(monkeypatch)
    monkeypatch.setattr(wide_fetch, "WIDEST_SESSION", 4)
    assert not wire.fetch(12, fetch_request(12, topic, list(range(PARTITIONS)), session=(0, 0))).session_id
    session_id = wire.fetch(12, fetch_request(12, topic, [0], session=(0, 0))).session_id
    assert session_id
    request = fetch_request(12, topic, list(range(PARTITIONS)), session=(session_id, 1))
    assert wire.fetch(12, request).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_batches_behind_one_that_is_opened_stay_as_they_were_sent(
    monkeypatch: pytest.MonkeyPatch, served: Broker, wire: Wire
) -> None:
    """I9: while a thread opens the first batch of a request, the other ones lie in the frame. Another client's request
    of the same size does not overwrite them."""
    monkeypatch.setattr(produce, "_MOST_AT_ONCE", 0)
    monkeypatch.setattr(wide_produce, "PARTITIONS_AT_ONCE", 1)
    monkeypatch.setattr(OpeningAllowance, "_records_left", 0)
    opened = threading.Event()
    may_open = threading.Event()

    def hold(opening: BatchOpening, max_bytes: int) -> OpenedData:
        opened.set()
        assert may_open.wait(60)
        return open_within(opening, max_bytes)

    open_within = BatchOpening.open_within
    config = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=settings)
        for name, settings in (("held1", config), ("other", []))
    ]
    wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=topics, timeout_ms=10_000))

    def request(topic: str, letter: bytes) -> bytes:
        values = [memoryview(batch(letter * 400_000, key=b"k")) for _ in range(2)]
        records: list[tuple[int, memoryview | None]] = list(enumerate(values))
        return encode_produce_request(9, ProduceRequest(None, -1, 10_000, [ProduceTopic(topic, None, records)]))

    with Wire(served.bootstrap_servers) as other:
        other.exchange(ApiKey.PRODUCE, 9, request("other", b"a"))  # the first request of an API waits for its turn
        monkeypatch.setattr(BatchOpening, "open_within", hold)
        wire.send(ApiKey.PRODUCE, 9, request("held1", b"x"))
        assert opened.wait(60)
        other.exchange(ApiKey.PRODUCE, 9, request("other", b"y"))
        may_open.set()
        wire.receive(ApiKey.PRODUCE, 9)
    (answered,) = wire.fetch(12, fetch_request(12, ("held1", UNKNOWN_ID), [0, 1])).topics[:1]
    values: list[bytes | memoryview | None] = []
    for each in answered.partitions:
        assert isinstance(each.records, (bytes, memoryview))
        values += [record.value for record in decode_records(each.records)]
    assert [bytes(value or b"")[:1] for value in values] == [b"x", b"x"]
