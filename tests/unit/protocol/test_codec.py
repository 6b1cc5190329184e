"""Tests every message in every version: it decodes to itself, kio agrees on its bytes, and malformed bytes are refused.

The values are drawn from the field tables that the codecs are compiled from. kio reads Kafka's definitions
independently, so the comparison with kio checks these tables. kio refuses unknown error codes, and has dates and
durations where Kafka has integers. In comparisons with kio, values are therefore limited to those that kio can
represent.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import fields as dataclass_fields
from importlib import import_module
from pkgutil import iter_modules, resolve_name
from typing import Any, TypeVar, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import LoadableEntityType, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from tests.support.examples import examples

import klamm.protocol.schema
from klamm.protocol.api import API_SPECS
from klamm.protocol.codec import (
    Message,
    UnsupportedField,
    UnsupportedVersion,
    decode,
    encode,
    encode_into,
)
from klamm.protocol.codec_in_steps import decode_in_steps, encode_in_steps
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import FieldSpec, fields_of, struct_class
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from klamm.protocol.schema.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.protocol.schema.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic

R = TypeVar("R")

strategies: dict[tuple[type[Message], int, Any], st.SearchStrategy[Any]] = {}
INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}
# A compact length takes two bytes from 127 on.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(["ü" * 64, "x" * 126, "x" * 127])
blobs = st.binary(max_size=4) | st.sampled_from([bytes(126), bytes(127), bytes(17_000)])
values: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": text,
    "string16": text,
    "bytes": blobs,
    "records": blobs,
    "uuid": st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
} | {name: st.integers(low, high) for name, (low, high) in INTEGERS.items()}
# Values that kio's types can represent.
kio_values: dict[str, st.SearchStrategy[int]] = {
    "error_code": st.sampled_from([int(code) for code in KioErrorCode]),
    "timedelta_i64": st.integers(-(10**12), 10**12),
    "datetime_i64": st.integers(0, 253_402_000_000_000),
}


OWN_TAGS = (27500, 27501, 27502, 27503)
KINDS: dict[str, LoadableEntityType] = {
    "request": EntityType.request,
    "response": EntityType.response,
    "data": EntityType.data,
    "header": EntityType.header,
}


def all_messages() -> Iterator[type[Message]]:
    """Yields the top-level class of each generated module."""
    for module in iter_modules(klamm.protocol.schema.__path__):
        loaded = import_module(f"klamm.protocol.schema.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, Message) and value.NAME:
                yield value


MESSAGES = sorted(all_messages(), key=lambda cls: cls.NAME)
each_message = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.NAME)
each_version = pytest.mark.parametrize(
    ("cls", "version"),
    [
        pytest.param(cls, version, id=f"{cls.NAME}-{version}")
        for cls in MESSAGES
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
    ],
)


def kio_class(cls: type[Message], version: int) -> Any:
    """Returns kio's class for one version of a message, or None if kio has none."""
    kind = KINDS.get(cls.TYPE)
    if kind is None:
        return None
    name = cls.__module__.rpartition(".")[2].removesuffix("_request").removesuffix("_response")
    path = schema_name_map.get(name, {}).get(version, {}).get(kind)
    return None if path is None else resolve_name(path)


def inner_kio_class(hint: Any) -> Any:
    """Returns the class X inside `tuple[X, ...]` and `X | None`."""
    while arguments := [argument for argument in get_args(hint) if argument not in (type(None), Ellipsis)]:
        hint = arguments[0]
    return hint


def strategy_of_field(cls: type[Message], field: FieldSpec, version: int, kio_field: Any, hint: Any) -> Any:
    """Returns a strategy for the values of one field, with null if the field is nullable in the version."""
    if field.is_struct:
        kio = inner_kio_class(hint) if kio_field is not None else None
        element: st.SearchStrategy[Any] = instances(struct_class(cls, field.element), version, kio)
    else:
        kio_type = kio_field.metadata["kafka_type"] if kio_field is not None else ""
        element = kio_values.get(kio_type, values[field.element])
    whole = st.lists(element, max_size=2) if field.is_array else element
    return st.none() | whole if field.is_nullable(version) else whole


def instances(cls: type[Message], version: int, kio: Any) -> st.SearchStrategy[Any]:
    """Returns a strategy for messages that set only the fields of the version; the strategy is cached."""
    known = strategies.get((cls, version, kio))
    if known is None:
        known = strategies[cls, version, kio] = build_instances(cls, version, kio)
    return known


def build_instances(cls: type[Message], version: int, kio: Any) -> st.SearchStrategy[Any]:
    """Builds the strategy that `instances` caches."""
    # kio does not know the fields that klamm adds to Kafka's messages.
    present = [field for field in fields_of(cls) if field.present(version) and field.tag not in OWN_TAGS]
    kio_fields = dataclass_fields(kio) if kio else [None] * len(present)
    assert len(kio_fields) == len(present), f"kio gives {cls.__name__} version {version} other fields"
    hints = get_type_hints(kio) if kio else {}
    arguments = {
        field.name: strategy_of_field(cls, field, version, kio_field, hints.get(getattr(kio_field, "name", "")))
        for field, kio_field in zip(present, kio_fields, strict=True)
    }
    return st.builds(cls, **arguments)


def at_the_end(steps: Generator[Any, None, R]) -> R:
    """Runs all steps and returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def read_or_none(read: Callable[[], Message]) -> Message | None:
    """Returns the decoded message, or None if the bytes are malformed."""
    try:
        return read()
    except MalformedMessage:
        return None


few = settings(max_examples=examples(10), deadline=None, database=None, suppress_health_check=list(HealthCheck))


@each_version
def test_a_message_comes_back_from_its_bytes_and_kio_agrees_on_them(cls: type[Message], version: int) -> None:
    """An encoded message decodes to itself at any offset, at once and in steps; kio reads and writes the same bytes."""
    kio = kio_class(cls, version)

    @few
    @given(instances(cls, version, kio))
    def check(message: Message) -> None:
        encoded = encode(message, version)
        assert decode(cls, version, encoded) == (message, len(encoded))
        shifted = memoryview(b"\xff\xff" + encoded + b"\xff")
        assert decode(cls, version, shifted, 2) == (message, len(encoded) + 2)
        assert at_the_end(decode_in_steps(cls, version, shifted, 2)) == message
        assert b"".join(at_the_end(encode_in_steps(message, version))) == encoded
        if kio is not None:
            seen, size = entity_reader(kio)(encoded, 0)
            assert size == len(encoded)
            written = io.BytesIO()
            entity_writer(kio)(written, seen)
            assert written.getvalue() == encoded

    check()


def test_kio_takes_part_in_all_that_travels_between_client_and_broker() -> None:
    """kio has a class for every compared message except ProducerSnapshot, so the comparison is not silently empty."""
    unknown = {
        cls.NAME
        for cls in MESSAGES
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
        if cls.TYPE in KINDS and kio_class(cls, version) is None
    }
    assert unknown == {"ProducerSnapshot"}


@each_message
def test_truncated_and_altered_bytes_are_malformed_and_nothing_else(cls: type[Message]) -> None:
    """Truncated bytes raise MalformedMessage; altered bytes decode to a message or raise MalformedMessage."""

    @few
    @given(st.data())
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted({cls.VERSIONS[0], cls.VERSIONS[1], cls.FLEXIBLE_FROM or 0})))
        version = max(version, cls.VERSIONS[0])
        encoded = encode(data.draw(instances(cls, version, None)), version)
        if encoded:
            cut = data.draw(st.integers(0, len(encoded) - 1))
            with pytest.raises(MalformedMessage):
                decode(cls, version, encoded[:cut])
            with pytest.raises(MalformedMessage):
                at_the_end(decode_in_steps(cls, version, memoryview(encoded[:cut])))
            altered = bytearray(encoded)
            for _ in range(3):
                position = data.draw(st.integers(0, len(encoded) - 1))
                altered[position] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
                at_once = read_or_none(lambda: decode(cls, version, bytes(altered))[0])
                in_steps = read_or_none(lambda: at_the_end(decode_in_steps(cls, version, memoryview(altered))))
                assert (at_once is None) == (in_steps is None)
                if at_once is not None and in_steps is not None:
                    assert encode(at_once, version) == encode(in_steps, version)
        with suppress(MalformedMessage):
            decode(cls, version, memoryview(data.draw(st.binary(max_size=64))))

    check()


@pytest.mark.parametrize("count", [2**31 - 1, 10**6, 3])
def test_a_count_beyond_the_bytes_that_remain_is_refused_before_anything_is_made(count: int) -> None:
    """An element count is refused if the remaining bytes are fewer than that many elements need at least."""
    with pytest.raises(MalformedMessage, match="topics"):
        decode(MetadataRequest, 4, count.to_bytes(4, "big") + bytes(5))


def test_a_count_of_compact_elements_is_refused_too() -> None:
    """In flexible versions, where the count is a varint, a count that exceeds the remaining bytes is refused too."""
    with pytest.raises(MalformedMessage, match="topics"):
        decode(MetadataRequest, 12, b"\xff\xff\xff\xff\x0f" + bytes(30))


def test_a_varint_of_more_than_five_bytes_is_malformed() -> None:
    """A varint of more than five bytes is malformed, because Kafka's varints end within five bytes."""
    with pytest.raises(MalformedMessage, match="varint"):
        decode(MetadataRequest, 12, b"\xff" * 5 + b"\x00" * 30)


def test_text_that_is_not_utf8_is_malformed() -> None:
    """A string field whose bytes are not UTF-8 is malformed."""
    encoded = encode(HeartbeatRequest(group_id="group", member_id="member"), 0)
    with pytest.raises(MalformedMessage, match="UTF-8"):
        decode(HeartbeatRequest, 0, encoded.replace(b"member", b"\xff\xfeXXXX"))


def test_null_where_null_cannot_travel_is_malformed() -> None:
    """A null group id is malformed, because the field is not nullable."""
    with pytest.raises(MalformedMessage, match="group_id is null"):
        decode(HeartbeatRequest, 0, b"\xff\xff" + bytes(20))


def test_unknown_tagged_fields_are_skipped() -> None:
    """The decoder skips unknown tagged fields, which a newer client may add to a known version (KIP-482)."""
    encoded = encode(ApiVersionsRequest(client_software_name="client", client_software_version="1"), 3)
    assert encoded.endswith(b"\x00")
    message, end = decode(ApiVersionsRequest, 3, encoded[:-1] + b"\x01\x63\x02ab")
    assert message.client_software_name == "client"
    assert end == len(encoded) + 4


def test_a_tagged_field_longer_than_the_message_is_malformed() -> None:
    """A tagged field whose size exceeds the remaining bytes is malformed."""
    encoded = encode(ApiVersionsRequest(), 3)
    with pytest.raises(MalformedMessage, match="tagged field"):
        decode(ApiVersionsRequest, 3, encoded[:-1] + b"\x01\x63\x7fab")


def test_a_known_tagged_field_of_another_size_is_malformed() -> None:
    """A tagged field whose size differs from its content is malformed, because later fields would be misread."""
    message = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", topic_config_error_code=5)])
    encoded = encode(message, 5)
    assert encoded.endswith(b"\x01\x00\x02\x00\x05\x00")
    with pytest.raises(MalformedMessage, match="topic_config_error_code"):
        decode(CreateTopicsResponse, 5, encoded[:-6] + b"\x01\x00\x03\x00\x05\x00\x00")


def test_a_tagged_field_at_its_default_does_not_travel() -> None:
    """A tagged field with its default value takes no bytes, and the decoder restores the default."""
    message = CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
    assert encode(message, 5).endswith(b"\x00\x00")
    assert decode(CreateTopicsResponse, 5, encode(message, 5))[0] == message


def test_a_value_that_the_version_has_no_field_for_is_refused() -> None:
    """The encoder refuses a value that the version has no field for, and accepts it in a version that has the field."""
    with pytest.raises(UnsupportedField, match="group_instance_id"):
        encode(HeartbeatRequest(group_id="g", group_instance_id="i"), 2)
    assert encode(HeartbeatRequest(group_id="g", group_instance_id="i"), 3)


def test_a_value_that_may_be_ignored_is_dropped() -> None:
    """The encoder drops the ignorable throttle time in version 0 of a response, which has no field for it."""
    message = DescribeGroupsResponse(throttle_time_ms=7)
    assert decode(DescribeGroupsResponse, 0, encode(message, 0))[0].throttle_time_ms == 0
    assert decode(DescribeGroupsResponse, 1, encode(message, 1))[0].throttle_time_ms == 7


def test_null_in_a_version_that_has_none_is_refused() -> None:
    """Version 0 of Metadata refuses a null topic list (there, an empty list means all topics); version 1 allows it."""
    with pytest.raises(UnsupportedField):
        encode(MetadataRequest(topics=None), 0)
    assert decode(MetadataRequest, 1, encode(MetadataRequest(topics=None), 1))[0].topics is None


@pytest.mark.parametrize(
    "message",
    [
        HeartbeatRequest(group_id="g", generation_id=2**31),
        HeartbeatRequest(group_id="g" * 40_000),
        HeartbeatRequest(group_id="\ud800"),
        HeartbeatRequest(group_id=None),  # type: ignore[arg-type]
    ],
    ids=["number too large", "text too long", "lone surrogate", "null"],
)
@pytest.mark.parametrize("version", [0, 4])
def test_a_value_that_does_not_fit_is_refused(message: HeartbeatRequest, version: int) -> None:
    """A value that does not fit its field raises UnsupportedField, which names the message and its version."""
    with pytest.raises(UnsupportedField, match="HeartbeatRequest version"):
        encode(message, version)


@pytest.mark.parametrize("version", [-1, 14])
def test_versions_that_do_not_exist_are_refused(version: int) -> None:
    """The encoder and the decoder refuse unknown versions with an error that names the known ones."""
    with pytest.raises(UnsupportedVersion, match="0 to 13"):
        encode(MetadataRequest(), version)
    with pytest.raises(UnsupportedVersion, match="0 to 13"):
        decode(MetadataRequest, version, bytes(10))


def answers_with_messages() -> Iterator[tuple[Message, int, Message]]:
    """Yields each response that has an error message, its version, and the struct (or response) with the message."""
    for spec in API_SPECS.values():
        cls = spec.response_class()
        for version in range(spec.min_version, spec.max_version + 1):
            for field in fields_of(cls):
                if field.name == "error_message" and field.present(version):
                    answer = cls()
                    yield answer, version, answer
                elif field.is_array and field.is_struct and field.present(version):
                    part = struct_class(cls, field.element)()
                    if any(each.name == "error_message" and each.present(version) for each in fields_of(type(part))):
                        yield cls(**{field.name: [part]}), version, part


@pytest.mark.parametrize(
    ("answer", "version", "part"),
    [pytest.param(*case, id=f"{case[0].NAME} {case[1]}") for case in answers_with_messages()],
)
def test_an_error_message_is_cut_to_what_a_string_can_be(answer: Message, version: int, part: Any) -> None:
    """An error message that is too long for a string is cut at the end of a character. Such a message may repeat a
    client's string, which can already have the maximum length."""
    for message, kept in (("x" * 40_000, "x" * 32_767), ("é" * 20_000, "é" * 16_383), ("\udc80", "?")):
        part.error_message = kept
        expected = encode(answer, version)
        part.error_message = message
        assert encode(answer, version) == expected


def test_records_are_a_view_of_the_input() -> None:
    """Decoded records are a view of the input, so that batches are not copied."""
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=b"batch")])
    encoded = encode(FetchResponse(responses=[topic]), 12)
    decoded, _ = decode(FetchResponse, 12, encoded)
    records = decoded.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is encoded


def test_each_instance_has_lists_and_structs_of_its_own() -> None:
    """Two instances never share a default list or a default struct."""
    first, second = OffsetCommitRequest(), OffsetCommitRequest()
    first.topics.append(OffsetCommitRequestTopic(name="t"))
    assert second.topics == []
    assert PartitionData().current_leader is not PartitionData().current_leader


def test_messages_are_equal_when_all_fields_are() -> None:
    """Messages are equal if their class and all fields are equal; they are not hashable, because they are mutable."""
    assert MetadataRequestTopic(name="t") == MetadataRequestTopic(name="t")
    assert MetadataRequestTopic(name="t") != MetadataRequestTopic(name="u")
    assert MetadataRequest() != MetadataResponse()
    with pytest.raises(TypeError):
        hash(MetadataRequest())


def test_a_message_shows_its_fields() -> None:
    """The repr of a message shows all fields, for logs and failing tests."""
    assert repr(HeartbeatRequest(group_id="g", generation_id=3)) == (
        "HeartbeatRequest(group_id='g', generation_id=3, member_id='', group_instance_id=None)"
    )


def test_encoding_into_a_buffer_appends() -> None:
    """`encode_into` appends a message to a buffer, and leaves the buffer unchanged if the message is refused."""
    out = bytearray(b"head")
    encode_into(MetadataRequest(), 4, out)
    assert out == b"head" + encode(MetadataRequest(), 4)
    with pytest.raises(UnsupportedField):
        encode_into(MetadataRequest(topics=None), 0, out)
    assert out == b"head" + encode(MetadataRequest(), 4)


def test_unstable_versions_are_left_out() -> None:
    """Unstable versions are left out: Kafka 4.3 has InitProducerId up to version 5, and version 6 is unstable."""
    assert not any(field.versions[0] > cls.VERSIONS[1] for cls in MESSAGES for field in fields_of(cls))
    versions = {cls.NAME: cls.VERSIONS for cls in MESSAGES}
    assert versions["InitProducerIdRequest"] == versions["InitProducerIdResponse"] == (0, 5)


@pytest.mark.parametrize("version", [0, 1])
def test_a_field_of_klamms_own_travels_beside_kafkas(version: int) -> None:
    """A field that klamm adds to Kafka's message decodes to itself, and takes no bytes where it is not set."""
    group = DescribedGroup(group_id="orders", group_state="Stable", assignor_name="load")
    without = encode(ConsumerGroupDescribeResponse(groups=[group]), version)
    group.members_needed = 3
    message = ConsumerGroupDescribeResponse(groups=[group])
    encoded = encode(message, version)
    assert decode(ConsumerGroupDescribeResponse, version, encoded) == (message, len(encoded))
    group.members_needed = -1
    assert encode(ConsumerGroupDescribeResponse(groups=[group]), version) == without
