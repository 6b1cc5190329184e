"""Tests the Fetch codecs of both sides, against each other, kio and the generic codec, and with malformed bytes."""

from __future__ import annotations

import io
import uuid
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer
from tests.support.examples import examples

from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.fetch_client import FetchResponse, decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import (
    NO_HIGH_WATERMARK,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)
from klamm.protocol.fetch_request_decoder import decode_fetch_request
from klamm.protocol.fetch_response_encoder import encode_fetch_response
from klamm.protocol.message import Message
from klamm.protocol.node_endpoint import NodeEndpoint
from klamm.protocol.schema.fetch_request import FetchRequest as FetchRequestMessage
from klamm.protocol.schema.fetch_response import FetchResponse as FetchResponseMessage
from klamm.protocol.types import BrokerId, TopicId

VERSIONS = range(4, 19)
each_version = pytest.mark.parametrize("version", VERSIONS)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
uuids = st.binary(min_size=16, max_size=16)
# Beyond 126 bytes a compact length takes two bytes, beyond 16,382 three.
records: st.SearchStrategy[memoryview] = st.builds(
    memoryview, st.binary(max_size=300) | st.sampled_from([bytes(16_383), bytes(20_000)])
)
pairs_32_64 = st.tuples(int32, int64).filter(lambda pair: pair != (-1, -1))
pairs_64_32 = st.tuples(int64, int32).filter(lambda pair: pair != (-1, -1))
pairs_32 = st.tuples(int32, int32).filter(lambda pair: pair != (-1, -1))
ZERO_PARTITION = FetchPartition(0, -1, 0, -1, -1, 0)


@st.composite
def fetch_partitions(draw: st.DrawFn, version: int) -> FetchPartition:
    """Draws the request for one partition, with defaults for fields that the version lacks."""
    return FetchPartition(
        draw(int32),
        draw(int32) if version >= 9 else -1,
        draw(int64),
        draw(int32) if version >= 12 else -1,
        draw(int64) if version >= 5 else -1,
        draw(int32),
        draw(st.just(bytes(16)) | uuids) if version >= 17 else bytes(16),
        draw(st.just(NO_HIGH_WATERMARK) | int64) if version >= 18 else NO_HIGH_WATERMARK,
    )


@st.composite
def requests(draw: st.DrawFn, version: int) -> FetchRequest:
    """Draws a request that sets only the fields of the version."""

    def topic_key() -> tuple[str | None, TopicId | None]:
        return (draw(text), None) if version < 13 else (None, TopicId(draw(uuids)))

    topics = [
        FetchTopic(*topic_key(), draw(st.lists(fetch_partitions(version), max_size=3)))
        for _ in range(draw(st.integers(0, 3)))
    ]
    forgotten = []
    if version >= 7:
        forgotten = [
            ForgottenTopic(*topic_key(), draw(st.lists(int32, max_size=3))) for _ in range(draw(st.integers(0, 2)))
        ]
    return FetchRequest(
        draw(st.just(-1) | int32),
        draw(int32),
        draw(int32),
        draw(int32),
        draw(st.integers(-128, 127)),
        draw(int32) if version >= 7 else 0,
        draw(int32) if version >= 7 else -1,
        topics,
        forgotten,
        draw(text) if version >= 11 else "",
        draw(st.none() | text) if version >= 12 else None,
        draw(st.just(-1) | int64) if version >= 15 else -1,
    )


@st.composite
def partition_responses(draw: st.DrawFn, version: int) -> FetchPartitionResponse:
    """Draws a response for one partition that sets only the fields of the version."""
    partition = FetchPartitionResponse(
        draw(int32),
        draw(st.sampled_from(sorted(int(code) for code in KioErrorCode))),
        draw(int64),
        draw(int64),
        draw(int64) if version >= 5 else -1,
        draw(st.none() | st.lists(st.tuples(int64, int64), max_size=3)),
        draw(int32) if version >= 11 else -1,
        draw(st.none() | records),
    )
    if version >= 12:
        partition = partition._replace(
            diverging_epoch=draw(st.none() | pairs_32_64),
            current_leader=draw(st.none() | pairs_32),
            snapshot_id=draw(st.none() | pairs_64_32),
        )
    return partition


@st.composite
def responses(draw: st.DrawFn, version: int) -> FetchResponse:
    """Draws a response that sets only the fields of the version."""
    topics = [
        FetchTopicResponse(
            draw(text) if version < 13 else None,
            TopicId(draw(uuids)) if version >= 13 else None,
            draw(st.lists(partition_responses(version), max_size=3)),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    endpoints = st.builds(NodeEndpoint, int32.map(BrokerId), text, int32, st.none() | text)
    return FetchResponse(
        draw(int32),
        draw(st.sampled_from(sorted(int(code) for code in KioErrorCode))) if version >= 7 else 0,
        draw(int32) if version >= 7 else 0,
        topics,
        draw(st.lists(endpoints, max_size=2)) if version >= 16 else [],
    )


def encode_response(version: int, response: FetchResponse) -> bytes:
    """Returns the response as the broker encodes it, joined to one piece."""
    return b"".join(
        encode_fetch_response(
            version,
            response.error_code,
            response.session_id,
            response.topics,
            throttle_time_ms=response.throttle_time_ms,
            node_endpoints=response.node_endpoints,
        )
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


def uuid_for_kio(value: bytes | None) -> uuid.UUID | None:
    """Returns the id as kio represents it: None stands for the id of zeros."""
    return uuid.UUID(bytes=value) if value and any(value) else None


def pass_through_codec(message_class: type[Message], version: int, encoded: bytes) -> bytes:
    """Decodes and encodes the bytes with the generic codec, which is compiled from Kafka's definitions."""
    message, end = decode(message_class, version, encoded)
    assert end == len(encoded)
    return encode(message, version)


def request_for_kio(version: int, request: FetchRequest) -> Any:
    """Returns the same request in kio's classes."""
    module = import_module(f"kio.schema.fetch.v{version}.request")
    replica_state = {}
    if version >= 15:
        replica_state["replica_state"] = module.ReplicaState(
            replica_id=request.replica_id, replica_epoch=request.replica_epoch
        )
    forgotten = [
        build(
            module.ForgottenTopic,
            topic=topic.name,
            topic_id=uuid_for_kio(topic.topic_id),
            partitions=tuple(topic.partitions),
        )
        for topic in request.forgotten
    ]
    topics = [
        build(
            module.FetchTopic,
            topic=topic.name,
            topic_id=uuid_for_kio(topic.topic_id),
            partitions=tuple(
                build(
                    module.FetchPartition,
                    partition=partition.index,
                    **{
                        **partition._asdict(),
                        "replica_directory_id": uuid_for_kio(partition.replica_directory_id),
                    },
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    ]
    return build(
        module.FetchRequest,
        **{
            **request._asdict(),
            "max_wait": timedelta(milliseconds=request.max_wait_ms),
            "topics": tuple(topics),
            "forgotten_topics_data": tuple(forgotten),
            **replica_state,
        },
    )


def response_for_kio(version: int, response: FetchResponse) -> Any:
    """Returns the same response in kio's classes."""
    module = import_module(f"kio.schema.fetch.v{version}.response")

    def partition_for_kio(partition: FetchPartitionResponse) -> Any:
        tagged = {}
        if partition.diverging_epoch is not None:
            epoch, end_offset = partition.diverging_epoch
            tagged["diverging_epoch"] = module.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        if partition.current_leader is not None:
            leader_id, leader_epoch = partition.current_leader
            tagged["current_leader"] = module.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        if partition.snapshot_id is not None:
            end_offset, epoch = partition.snapshot_id
            tagged["snapshot_id"] = module.SnapshotId(end_offset=end_offset, epoch=epoch)
        aborted = partition.aborted_transactions
        assert partition.records is None or isinstance(partition.records, memoryview)
        return build(
            module.PartitionData,
            partition_index=partition.index,
            error_code=KioErrorCode(partition.error_code),
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=None
            if aborted is None
            else tuple(
                module.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in aborted
            ),
            preferred_read_replica=partition.preferred_read_replica,
            records=None if partition.records is None else bytes(partition.records),
            **tagged,
        )

    return build(
        module.FetchResponse,
        throttle_time=timedelta(milliseconds=response.throttle_time_ms),
        error_code=KioErrorCode(response.error_code),
        session_id=response.session_id,
        responses=tuple(
            build(
                module.FetchableTopicResponse,
                topic=topic.name,
                topic_id=uuid_for_kio(topic.topic_id),
                partitions=tuple(map(partition_for_kio, topic.partitions)),
            )
            for topic in response.topics
        ),
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
    encoded = encode_fetch_request(version, request)
    assert encoded == write_with_kio(request_for_kio(version, request))
    assert encoded == pass_through_codec(FetchRequestMessage, version, encoded)
    assert decode_fetch_request(version, memoryview(b"head" + encoded), 4) == request


@each_version
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_response_travels_as_others_write_it(version: int, data: st.DataObject) -> None:
    """A response has the same bytes as from kio and the generic codec, and the client decodes the same response."""
    response = data.draw(responses(version))
    encoded = encode_response(version, response)
    assert encoded == write_with_kio(response_for_kio(version, response))
    assert encoded == pass_through_codec(FetchResponseMessage, version, encoded)
    assert decode_fetch_response(version, memoryview(b"head" + encoded), 4) == response


@each_version
def test_records_are_handed_through(version: int) -> None:
    """The buffers of a response hold the given records, as one view or several, without a copy."""
    whole = memoryview(b"batch-0")
    pieces: list[bytes | memoryview] = [memoryview(b"batch-1"), b"batch-2"]
    topic = FetchTopicResponse(
        "t",
        TopicId(bytes(range(16))),
        [FetchPartitionResponse(0, 0, records=whole), FetchPartitionResponse(1, 0, records=pieces)],
    )
    buffers = encode_fetch_response(version, 0, 0, [topic])
    assert [any(buffer is part for buffer in buffers) for part in (whole, *pieces)] == [True, True, True]
    decoded = decode_fetch_response(version, memoryview(b"".join(buffers)))
    assert [partition.records for partition in decoded.topics[0].partitions] == [b"batch-0", b"batch-1batch-2"]


@each_version
def test_error_is_answered_with_empty_records(version: int) -> None:
    """A partition with an error has Kafka's defaults: offsets of -1, and records that are empty, not null."""
    topic = FetchTopicResponse("t", TopicId(bytes(range(16))), [FetchPartitionResponse(7, 3)])
    (partition,) = (
        decode_fetch_response(version, memoryview(b"".join(encode_fetch_response(version, 0, 0, [topic]))))
        .topics[0]
        .partitions
    )
    assert partition == FetchPartitionResponse(7, 3, -1, -1, -1, None, -1, memoryview(b""))


@each_version
def test_fields_that_the_version_lacks_are_left_out(version: int) -> None:
    """The encoder leaves out fields that a version lacks, so that the broker need not know the version's fields."""
    partition = FetchPartitionResponse(
        0, 6, 5, 4, 3, [], 2, b"batch", diverging_epoch=(1, 2), current_leader=(3, 4), snapshot_id=(5, 6)
    )
    topic = FetchTopicResponse("t", TopicId(bytes(range(16))), [partition])
    encoded = b"".join(
        encode_fetch_response(version, 0, 9, [topic], node_endpoints=[NodeEndpoint(BrokerId(1), "localhost", 9092)])
    )
    (decoded,) = decode_fetch_response(version, memoryview(encoded)).topics[0].partitions
    assert (decoded.index, decoded.error_code, decoded.high_watermark, decoded.records) == (0, 6, 5, b"batch")


@each_version
@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_cut_messages_are_malformed(version: int, data: st.DataObject) -> None:
    """A request or response that is cut anywhere before its end is malformed."""
    encoded = encode_fetch_request(version, data.draw(requests(version)))
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MalformedMessage):
        decode_fetch_request(version, memoryview(encoded)[:cut])
    answer = encode_response(version, data.draw(responses(version)))
    cut = data.draw(st.integers(0, len(answer) - 1))
    with pytest.raises(MalformedMessage):
        decode_fetch_response(version, memoryview(answer)[:cut])


@each_version
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_altered_messages_raise_nothing_else(version: int, data: st.DataObject) -> None:
    """Altered bytes raise MalformedMessage or decode to another message; no other error reaches the caller."""
    encoded = bytearray(encode_fetch_request(version, data.draw(requests(version))))
    answer = bytearray(encode_response(version, data.draw(responses(version))))
    for message in (encoded, answer):
        for _ in range(data.draw(st.integers(1, 5))):
            message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedMessage):
        decode_fetch_request(version, memoryview(encoded))
    with suppress(MalformedMessage):
        decode_fetch_response(version, memoryview(answer))


# All fields before the topics, as zeros: waits, sizes, isolation level and, from version 7, session.
HEAD_V4 = bytes(17)
HEAD_V7 = bytes(25)
HEAD_V12 = bytes(25)


@pytest.mark.parametrize(
    ("version", "body"),
    [
        pytest.param(4, HEAD_V4 + b"\x7f\xff\xff\xff", id="topics"),
        pytest.param(4, HEAD_V4 + b"\xff\xff\xff\xff", id="null topics"),
        pytest.param(4, HEAD_V4 + b"\x00\x00\x00\x01\x7f\xff", id="name"),
        pytest.param(4, HEAD_V4 + b"\x00\x00\x00\x01\xff\xff", id="null name"),
        pytest.param(4, HEAD_V4 + b"\x00\x00\x00\x01\x00\x01t\x00\xff\xff\xff", id="partitions"),
        pytest.param(7, HEAD_V7 + b"\x00\x00\x00\x00\x00\xff\xff\xff", id="forgotten topics"),
        pytest.param(7, HEAD_V7 + b"\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01t\x00\xff\xff\xff", id="forgotten"),
        pytest.param(12, HEAD_V12 + b"\xff\xff\xff\xff\x07", id="compact topics"),
        pytest.param(12, HEAD_V12 + b"\x00", id="null compact topics"),
        pytest.param(12, HEAD_V12 + b"\xff\xff\xff\xff\xff\x07", id="endless varint"),
        pytest.param(12, HEAD_V12 + b"\x02\x00", id="null compact name"),
        pytest.param(12, HEAD_V12 + b"\x02\x02t\x80\x80\x04", id="compact partitions"),
        pytest.param(12, HEAD_V12 + b"\x01\x80\x80\x04", id="compact forgotten topics"),
        pytest.param(12, HEAD_V12 + b"\x01\x02\x02t\x80\x80\x04", id="compact forgotten"),
        pytest.param(12, HEAD_V12 + b"\x01\x01\x00", id="null rack"),
        pytest.param(12, HEAD_V12 + b"\x01\x01\x01\x7f", id="tagged fields"),
        pytest.param(12, HEAD_V12 + b"\x01\x01\x01\x01\x00\x00", id="empty cluster id"),
    ],
)
def test_lengths_and_counts_that_lie_are_malformed(version: int, body: bytes) -> None:
    """Lengths and counts that exceed the remaining bytes, and nulls in fields that are not nullable, are malformed."""
    with pytest.raises(MalformedMessage):
        decode_fetch_request(version, memoryview(body + bytes(64)))


def test_unknown_tagged_fields_are_skipped() -> None:
    """The decoder skips unknown tagged fields of a later Kafka and reads all known fields (KIP-482)."""
    request = FetchRequest(
        5, 500, 1, 2**20, 1, 0, -1, [FetchTopic(None, TopicId(bytes(range(16))), [ZERO_PARTITION])], [], "r", None, 7
    )
    encoded = encode_fetch_request(18, request)
    unknown = b"\x63\x03abc"
    # The last byte of the partition counts its tagged fields; forgotten topics, rack and replica state follow.
    partition_end = len(encoded) - len(b"\x00\x01\x02r\x01\x01\x0d") - 13
    assert encoded[partition_end - 1] == 0
    widened = encoded[: partition_end - 1] + b"\x01" + unknown + b"\x01" + unknown + encoded[partition_end + 1 :]
    replica_state = widened.rindex(b"\x01\x01\x0d")
    widened = widened[:replica_state] + b"\x02" + widened[replica_state + 1 :] + unknown
    assert decode_fetch_request(18, memoryview(widened)) == request
