"""Responses whose records are sent from files, over real sockets."""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from tests.integration.broker.handlers.test_produce_and_fetch import batch
from tests.support.wire import Wire

from klamm.broker.handler_context import ConnectionInfo
from klamm.broker.handlers.fetch import READ_AT_ONCE_BYTES
from klamm.broker.network import file_sending
from klamm.broker.network.codec_route import SMALL_FRAME_BYTES
from klamm.broker.network.dispatch import Dispatcher
from klamm.broker.network.file_sending import FileSender
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import FetchResponse, decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.testing import Broker

VERSION = 11
PARTITIONS = 4
BATCHES = 12
BATCH_BYTES = 200_000
MUCH = 50_000_000


@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def wire(served: Broker) -> Iterator[Wire]:
    with Wire(served.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def topic(wire: Wire) -> str:
    """Creates a topic with about 2.4 MB in each partition."""
    name = f"topic-{time.monotonic_ns()}"
    wish = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[wish], timeout_ms=10_000))
    for number in range(BATCHES):
        records = memoryview(batch(bytes([number]) * BATCH_BYTES))
        partitions: list[tuple[int, memoryview | None]] = [(index, records) for index in range(PARTITIONS)]
        answer = wire.produce(9, ProduceRequest(None, -1, 10_000, [ProduceTopic(name, None, partitions)]))
        assert not any(each.error_code for each in answer.topics[0].partitions)
    return name


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records for each response how many bytes were left for the transport."""
    left: list[int] = []
    send = FileSender.send

    def counted(sender: FileSender, parts: Any) -> list[bytes | memoryview]:
        rest = send(sender, parts)
        left.append(sum(map(len, rest)))
        return rest

    monkeypatch.setattr(FileSender, "send", counted)
    return left


def request(topic: str, *, max_bytes: int = MUCH) -> FetchRequest:
    """Returns a fetch request for all partitions from offset 0."""
    wanted = [FetchPartition(index, -1, 0, -1, -1, max_bytes) for index in range(PARTITIONS)]
    return FetchRequest(-1, 0, 1, MUCH, 0, 0, -1, [FetchTopic(topic, None, wanted)], [])


def records_of(response: FetchResponse) -> list[bytes]:
    assert not response.error_code
    return [bytes(cast("bytes", partition.records) or b"") for of in response.topics for partition in of.partitions]


def test_an_answer_from_files_is_the_one_from_memory(
    monkeypatch: pytest.MonkeyPatch, wire: Wire, topic: str, sent: list[int]
) -> None:
    """A response sent from files equals the response sent from memory, for small and large limits."""
    for max_bytes in (10, 300_000, 900_000, MUCH):
        from_files = wire.fetch(VERSION, request(topic, max_bytes=max_bytes))
        with monkeypatch.context() as patch:
            patch.setattr(FileSender, "of", lambda transport: None)
            with Wire(":".join(map(str, wire.socket.getpeername()))) as other:
                from_memory = other.fetch(VERSION, request(topic, max_bytes=max_bytes))
        assert from_files == from_memory
        assert any(records_of(from_files))
    assert len(sent) == 3


def test_a_client_that_reads_slowly_gets_all_of_it(wire: Wire, topic: str, sent: list[int]) -> None:
    """A client that reads slowly gets all bytes that the socket did not accept at once, and then the next responses."""
    expected = records_of(wire.fetch(VERSION, request(topic)))
    body = encode_fetch_request(VERSION, request(topic))
    for _ in range(3):
        wire.send(ApiKey.FETCH, VERSION, body)
    time.sleep(0.2)
    for behind in (2, 1, 0):
        answer = wire.receive(ApiKey.FETCH, VERSION, requests_behind=behind)
        assert records_of(decode_fetch_response(VERSION, answer)) == expected
    assert any(sent)


def test_no_client_keeps_the_loop_for_a_long_answer(
    monkeypatch: pytest.MonkeyPatch, wire: Wire, topic: str, sent: list[int]
) -> None:
    """One step of the loop sends at most AT_ONCE_BYTES of a response, however fast the client reads."""
    expected = records_of(wire.fetch(VERSION, request(topic)))
    monkeypatch.setattr(file_sending, "AT_ONCE_BYTES", 500_000)
    assert records_of(wire.fetch(VERSION, request(topic))) == expected
    assert sent[-1] >= sum(map(len, expected)) - 500_000


def test_a_file_that_lost_its_end_costs_one_connection(
    served: Broker, wire: Wire, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A truncated segment file closes the connection, because the response has already begun. The next response
    contains KAFKA_STORAGE_ERROR for that partition."""
    file = served.data_dir / f"{topic}-2" / f"{0:020d}.log"
    os.truncate(file, 1_000_000)
    with pytest.raises(ConnectionError):
        wire.fetch(VERSION, request(topic))
    assert [record.message for record in caplog.records if str(file) in record.message]
    with Wire(served.bootstrap_servers) as other:
        partitions = other.fetch(VERSION, request(topic)).topics[0].partitions
    codes = [each.error_code for each in partitions]
    assert codes == [0, 0, ErrorCode.KAFKA_STORAGE_ERROR, 0]


def test_a_client_that_has_gone_is_no_error(served: Broker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """A client that disconnects before its response causes no log message, and the broker serves other clients."""
    body = encode_fetch_request(VERSION, request(topic))
    for _ in range(20):
        with Wire(served.bootstrap_servers) as gone:
            gone.send(ApiKey.FETCH, VERSION, body)
    with Wire(served.bootstrap_servers) as other:
        assert all(records_of(other.fetch(VERSION, request(topic))))
    assert not caplog.records


def test_a_sender_never_closes_the_descriptor() -> None:
    """A FileSender that is garbage-collected leaves the transport's socket open. Its descriptor number could belong to
    another client later."""
    here, there = socket.socketpair()
    with here, there:
        sender = FileSender(here)
        assert sender.send([b"an answer"]) == []
        del sender
        gc.collect()
        assert there.recv(20) == b"an answer"
        here.sendall(b"still open")
        assert there.recv(20) == b"still open"


def test_the_first_fetch_of_a_broker_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first Fetch is answered in the same step, even if it is large. Its response may have records in files, which
    must not change before they are sent."""
    answers: list[Any] = []
    dispatch = Dispatcher.dispatch

    def watched(dispatcher: Dispatcher, connection: ConnectionInfo, frame: memoryview) -> Any:
        answers.append(dispatch(dispatcher, connection, frame))
        return answers[-1]

    monkeypatch.setattr(Dispatcher, "dispatch", watched)
    wanted = [FetchPartition(0, -1, 0, -1, -1, MUCH)]
    topics = [FetchTopic("a-topic-that-is-not-there", None, wanted) for _ in range(100)]
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        body = encode_fetch_request(VERSION, FetchRequest(-1, 0, 1, MUCH, 0, 0, -1, topics, []))
        assert SMALL_FRAME_BYTES < len(body) < READ_AT_ONCE_BYTES
        wire.exchange(ApiKey.FETCH, VERSION, body)
    assert [type(body) for _, _, body in answers] == [list]
