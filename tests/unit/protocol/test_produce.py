"""Tests the Produce codecs of both sides, against each other, kio and the generic codec, and with malformed bytes."""

from __future__ import annotations

import io
import uuid
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from tests.support.examples import examples

from klamm.protocol import produce
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.node_endpoint import NodeEndpoint
from klamm.protocol.produce import (
    ManyPartitions,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
    ProduceTopicResponse,
    decode_produce_request,
    encode_produce_response,
)
from klamm.protocol.produce_client import ProduceResponse, decode_produce_response, encode_produce_request
from klamm.protocol.schema.produce_request import ProduceRequest as ProduceRequestMessage
from klamm.protocol.schema.produce_response import ProduceResponse as ProduceResponseMessage
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, TopicId

VERSIONS = range(3, 14)
each_version = pytest.mark.parametrize("version", VERSIONS)

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
topic_ids = st.binary(min_size=16, max_size=16).map(TopicId)
# Beyond 126 bytes a compact length takes two bytes, beyond 16,382 three.
records: st.SearchStrategy[memoryview] = st.builds(
    memoryview, st.binary(max_size=300) | st.sampled_from([bytes(16_383), bytes(20_000)])
)


@st.composite
def requests(draw: st.DrawFn, version: int) -> ProduceRequest:
    """Draws a request that sets only the fields of the version."""
    topics = [
        ProduceTopic(
            draw(text) if version < 13 else None,
            draw(topic_ids) if version >= 13 else None,
            draw(st.lists(st.tuples(int32, st.none() | records), max_size=3)),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return ProduceRequest(draw(st.none() | text), draw(int16), draw(int32), topics)


@st.composite
def partition_responses(draw: st.DrawFn, version: int) -> ProducePartitionResponse:
    """Draws a response for one partition that sets only the fields of the version, to values that kio can represent."""
    partition = ProducePartitionResponse(
        draw(int32),
        draw(st.sampled_from(sorted(int(code) for code in KioErrorCode))),
        draw(int64),
        draw(st.integers(-1, 253_402_000_000_000)),
    )
    if version >= 5:
        partition = partition._replace(log_start_offset=draw(int64))
    if version >= 8:
        partition = partition._replace(
            record_errors=draw(st.lists(st.tuples(int32, st.none() | text), max_size=2)),
            error_message=draw(st.none() | text),
        )
    if version >= 10:
        leaders = st.tuples(int32, int32).filter(lambda pair: pair != (-1, -1))
        partition = partition._replace(current_leader=draw(st.none() | leaders))
    return partition


@st.composite
def responses(draw: st.DrawFn, version: int) -> ProduceResponse:
    """Draws a response that sets only the fields of the version."""
    topics = [
        ProduceTopicResponse(
            draw(text) if version < 13 else None,
            draw(topic_ids) if version >= 13 else None,
            draw(st.lists(partition_responses(version), max_size=3)),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    endpoints = st.builds(NodeEndpoint, int32.map(BrokerId), text, int32, st.none() | text)
    return ProduceResponse(topics, draw(int32), draw(st.lists(endpoints, max_size=2)) if version >= 10 else [])


def encode_response(version: int, response: ProduceResponse) -> bytes:
    """Returns the response as the broker encodes it."""
    return encode_produce_response(
        version,
        response.topics,
        throttle_time_ms=response.throttle_time_ms,
        node_endpoints=response.node_endpoints,
    )


def build(kio_class: Any, **values: Any) -> Any:
    """Returns an instance of one of kio's classes, made from those values that the class has fields for."""
    names = {field.name for field in fields(kio_class)}
    return kio_class(**{name: value for name, value in values.items() if name in names})


def write_with_kio(entity: Any) -> bytes:
    """Returns the entity's bytes as kio writes them."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def pass_through_codec(message_class: type[Message], version: int, encoded: bytes) -> bytes:
    """Decodes and encodes the bytes with the generic codec, which is compiled from Kafka's definitions."""
    message, end = decode(message_class, version, encoded)
    assert end == len(encoded)
    return encode(message, version)


def request_for_kio(version: int, request: ProduceRequest) -> Any:
    """Returns the same request in kio's classes."""
    module = import_module(f"kio.schema.produce.v{version}.request")
    return module.ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout=timedelta(milliseconds=request.timeout_ms),
        topic_data=tuple(
            build(
                module.TopicProduceData,
                name=topic.name,
                topic_id=topic.topic_id and uuid.UUID(bytes=topic.topic_id),
                partition_data=tuple(
                    module.PartitionProduceData(index=index, records=None if data is None else bytes(data))
                    for index, data in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def response_for_kio(version: int, response: ProduceResponse) -> Any:
    """Returns the same response in kio's classes."""
    module = import_module(f"kio.schema.produce.v{version}.response")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def partition_for_kio(partition: ProducePartitionResponse) -> Any:
        append_time = partition.log_append_time_ms
        leader = partition.current_leader
        return build(
            module.PartitionProduceResponse,
            index=partition.index,
            error_code=KioErrorCode(partition.error_code),
            base_offset=partition.base_offset,
            log_append_time=None if append_time < 0 else epoch + timedelta(milliseconds=append_time),
            log_start_offset=partition.log_start_offset,
            record_errors=tuple(
                module.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in partition.record_errors
            ),
            error_message=partition.error_message,
            **(
                {}
                if leader is None
                else {"current_leader": module.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])}
            ),
        )

    return build(
        module.ProduceResponse,
        responses=tuple(
            build(
                module.TopicProduceResponse,
                name=topic.name,
                topic_id=topic.topic_id and uuid.UUID(bytes=topic.topic_id),
                partition_responses=tuple(map(partition_for_kio, topic.partitions)),
            )
            for topic in response.topics
        ),
        throttle_time=timedelta(milliseconds=response.throttle_time_ms),
        node_endpoints=tuple(
            module.NodeEndpoint(node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack)
            for endpoint in response.node_endpoints
        ),
    )


@each_version
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_request_travels_as_others_write_it(version: int, data: st.DataObject) -> None:
    """A request has the same bytes as from kio and the generic codec, and the broker decodes the same request."""
    request = data.draw(requests(version))
    encoded = encode_produce_request(version, request)
    assert encoded == write_with_kio(request_for_kio(version, request))
    assert encoded == pass_through_codec(ProduceRequestMessage, version, encoded)
    assert decode_produce_request(version, memoryview(b"head" + encoded), 4) == request


@each_version
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_response_travels_as_others_write_it(version: int, data: st.DataObject) -> None:
    """A response has the same bytes as from kio and the generic codec, and the client decodes the same response."""
    response = data.draw(responses(version))
    encoded = encode_response(version, response)
    assert encoded == write_with_kio(response_for_kio(version, response))
    assert encoded == pass_through_codec(ProduceResponseMessage, version, encoded)
    assert decode_produce_response(version, memoryview(b"head" + encoded), 4) == response


@each_version
def test_kio_reads_the_answer_of_a_refused_batch(version: int) -> None:
    """The response to a refused batch leaves out fields that the version lacks, and kio reads it in every version."""
    partition = ProducePartitionResponse(0, 87, -1, -1, -1, [(2, "no key")], "compacted", (1, 5))
    topic_id = TopicId(bytes(range(16)))
    encoded = encode_produce_response(
        version,
        [ProduceTopicResponse("orders", topic_id, [partition])],
        node_endpoints=[NodeEndpoint(BrokerId(1), "localhost", 9092)],
    )
    module = import_module(f"kio.schema.produce.v{version}.response")
    read, size = entity_reader(module.ProduceResponse)(encoded, 0)
    assert size == len(encoded)
    assert read.responses[0].partition_responses[0].error_code == KioErrorCode.invalid_record


@each_version
def test_records_are_views_of_the_request(version: int) -> None:
    """The decoder copies no batch: decoded records are views of the request's bytes."""
    request = ProduceRequest(None, -1, 1000, [ProduceTopic("t", TopicId(bytes(16)), [(0, memoryview(b"batch"))])])
    encoded = bytearray(encode_produce_request(version, request))
    (_, decoded), *_ = decode_produce_request(version, memoryview(encoded)).topics[0].partitions
    assert decoded is not None
    assert decoded.obj is encoded
    assert bytes(decoded) == b"batch"


@each_version
@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_cut_messages_are_malformed(version: int, data: st.DataObject) -> None:
    """A request or response that is cut anywhere before its end is malformed."""
    request = data.draw(requests(version))
    encoded = encode_produce_request(version, request)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MalformedMessage):
        decode_produce_request(version, memoryview(encoded)[:cut])
    answer = encode_response(version, data.draw(responses(version)))
    cut = data.draw(st.integers(0, len(answer) - 1))
    with pytest.raises(MalformedMessage):
        decode_produce_response(version, memoryview(answer)[:cut])


@each_version
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_altered_messages_raise_nothing_else(version: int, data: st.DataObject) -> None:
    """Altered bytes raise MalformedMessage, raise ManyPartitions (for a request), or decode to another message."""
    encoded = bytearray(encode_produce_request(version, data.draw(requests(version))))
    answer = bytearray(encode_response(version, data.draw(responses(version))))
    for message in (encoded, answer):
        for _ in range(data.draw(st.integers(1, 5))):
            message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedMessage, ManyPartitions):
        decode_produce_request(version, memoryview(encoded))
    with suppress(MalformedMessage):
        decode_produce_response(version, memoryview(answer))


# All fields before the topics: no transactional id, acks -1, no timeout.
FIXED_HEAD = b"\xff\xff\xff\xff\x00\x00\x00\x00"
COMPACT_HEAD = b"\x00\xff\xff\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("version", "body"),
    [
        pytest.param(3, b"\x7f\xff", id="transactional id"),
        pytest.param(3, FIXED_HEAD + b"\x7f\xff\xff\xff", id="topics"),
        pytest.param(3, FIXED_HEAD + b"\xff\xff\xff\xff", id="null topics"),
        pytest.param(3, FIXED_HEAD + b"\x00\x00\x00\x01\xff\xff", id="null name"),
        pytest.param(3, FIXED_HEAD + b"\x00\x00\x00\x01\x00\x01t\x00\xff\xff\xff", id="partitions"),
        pytest.param(
            3,
            FIXED_HEAD + b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff",
            id="records",
        ),
        pytest.param(9, b"\xff\xff\xff\xff\x0f", id="compact transactional id"),
        pytest.param(9, COMPACT_HEAD + b"\xff\xff\xff\xff\x07", id="compact topics"),
        pytest.param(9, COMPACT_HEAD + b"\x00", id="null compact topics"),
        pytest.param(9, COMPACT_HEAD + b"\xff\xff\xff\xff\xff\x07", id="endless varint"),
        pytest.param(9, COMPACT_HEAD + b"\x02\x00", id="null compact name"),
        pytest.param(9, COMPACT_HEAD + b"\x02\x02t\x80\x80\x04", id="compact partitions"),
        pytest.param(9, COMPACT_HEAD + b"\x02\x02t\x02\x00\x00\x00\x00\x80\x80\x04", id="compact records"),
        pytest.param(9, COMPACT_HEAD + b"\x01\xff\xff\xff\xff\x0f", id="tagged fields"),
        pytest.param(9, COMPACT_HEAD + b"\x01\x01\x00\xff\x7f", id="size of a tagged field"),
    ],
)
def test_lengths_and_counts_that_lie_are_malformed(version: int, body: bytes) -> None:
    """Lengths and counts that exceed the remaining bytes, and nulls in fields that are not nullable, are malformed."""
    with pytest.raises(MalformedMessage):
        decode_produce_request(version, memoryview(body + bytes(64)))


def test_unknown_tagged_fields_are_skipped() -> None:
    """The decoder skips unknown tagged fields of a later Kafka in a request, a topic and a partition (KIP-482)."""
    unknown = b"\x02\x05\x03abc\x81\x01\x00"
    body = (
        b"\x00"
        b"\xff\xff"
        b"\x00\x00\x03\xe8"
        b"\x02"
        b"\x02t"
        b"\x03"
        b"\x00\x00\x00\x00"
        b"\x03ab" + unknown + b"\x00\x00\x00\x01"
        b"\x03cd" + unknown + unknown + unknown
    )
    request = decode_produce_request(9, memoryview(body))
    assert request == ProduceRequest(
        None, -1, 1000, [ProduceTopic("t", None, [(0, memoryview(b"ab")), (1, memoryview(b"cd"))])]
    )


def test_name_that_is_no_utf8_is_read_as_java_reads_it() -> None:
    """Bytes of a topic name that are not UTF-8 become U+FFFD, so the topic is unknown and the connection stays open."""
    body = b"\x00\xff\xff\x00\x00\x00\x00\x02\x02\xff\x01\x00\x00"
    assert decode_produce_request(9, memoryview(body)).topics[0].name == "\ufffd"


def test_unknown_leader_is_left_out() -> None:
    """An unknown leader is left out, as in Kafka's generated classes, which encode no default of a tagged field."""
    partition = ProducePartitionResponse(0, 6)
    topic = ProduceTopicResponse("t", None, [partition])
    unknown = topic._replace(partitions=[partition._replace(current_leader=(-1, -1))])
    assert encode_produce_response(10, [unknown]) == encode_produce_response(10, [topic])


@pytest.mark.parametrize("version", range(8, 14))
def test_error_messages_are_cut_to_what_a_string_can_be(version: int) -> None:
    """Error messages that are too long for a string are cut at the end of a character, as in the generated codec."""

    def answer(message: str) -> bytes:
        partition = ProducePartitionResponse(0, 87, record_errors=[(0, message)], error_message=message)
        return encode_produce_response(version, [ProduceTopicResponse("t", ZERO_TOPIC_ID, [partition])])

    assert answer("é" * 20_000) == answer("é" * 16_383)
    decode_produce_response(version, memoryview(answer("é" * 20_000)))


@pytest.mark.parametrize("version", VERSIONS)
def test_many_bytes_for_several_partitions_are_left_to_be_read_in_steps(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Appending them takes long, however few partitions they are for. A single batch is appended at once anyway."""
    monkeypatch.setattr(produce, "_LARGEST_AT_ONCE", 1000)

    def read(*sizes: int, topics: int = 1) -> ProduceRequest:
        partitions: list[tuple[int, memoryview | None]] = [
            (index, memoryview(bytes(size))) for index, size in enumerate(sizes)
        ]
        name, topic_id = (None, TopicId(bytes(16))) if version >= 13 else ("topic", None)
        request = ProduceRequest("id", 1, 0, [ProduceTopic(name, topic_id, partitions)] * topics)
        return decode_produce_request(version, memoryview(encode_produce_request(version, request)))

    assert len(read(400, 400).topics[0].partitions) == 2
    assert len(read(5000).topics[0].partitions) == 1
    for sizes, topics in (((600, 600), 1), ((1200,), 2)):
        with pytest.raises(ManyPartitions):
            read(*sizes, topics=topics)
