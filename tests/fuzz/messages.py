"""Requests, responses and the members' messages: every codec, including headers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from tests.fuzz.guard import Target

from klamm.protocol.api import API_SPECS, ApiKey, ApiSpec
from klamm.protocol.codec import decode, encode
from klamm.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.fetch_request_decoder import decode_fetch_request
from klamm.protocol.headers import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    has_flexible_response_header,
)
from klamm.protocol.message import FieldSpec, Message, fields_of, struct_class
from klamm.protocol.produce import decode_produce_request
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = ["MEMBERS", "REQUESTS", "RESPONSES"]

_HAND_WRITTEN: Final[dict[int, Any]] = {ApiKey.PRODUCE: decode_produce_request, ApiKey.FETCH: decode_fetch_request}
_SAMPLES: Final[dict[str, Any]] = {
    "bool": True,
    "float64": 1.5,
    "string": "orders",
    "string16": "orders",
    "bytes": b"\x01\x02\x03",
    "records": encode_batch([(1_700_000_000_000, b"key", b"value", [("header", None)])]),
    "uuid": bytes(range(16)),
}


def _filled(cls: type[Message], version: int) -> Message:
    """Returns a message with a value in every field of the version, and two elements in every array."""
    message = cls()
    for field in fields_of(cls):
        if field.present(version):
            setattr(message, field.name, _sample(cls, field, version))
    return message


def _sample(cls: type[Message], field: FieldSpec, version: int) -> Any:
    def element() -> Any:
        if field.is_struct:
            return _filled(struct_class(cls, field.element), version)
        return _SAMPLES.get(field.element, 7)

    return [element(), element()] if field.is_array else element()


def _versions(spec: ApiSpec) -> range:
    return range(spec.min_version, spec.max_version + 1)


def _check_round_trip(message: Message, version: int) -> None:
    encoded = encode(message, version)
    again, _ = decode(type(message), version, encoded)
    # Compares bytes instead of messages, because a NaN does not equal itself.
    assert encode(again, version) == encoded, f"{message} became {again}"


def _read_request(data: bytes) -> None:
    with suppress(MalformedMessage):
        header = decode_request_header(data)
        if header.api_key not in _KEYS:
            return
        spec = API_SPECS[ApiKey(header.api_key)]
        version = header.api_version
        if not spec.supports(version):
            return
        if by_hand := _HAND_WRITTEN.get(header.api_key):
            by_hand(version, memoryview(data), header.end)
        message, end = decode(spec.request_class(), version, data, header.end)
        assert header.end <= end <= len(data)
        _check_round_trip(message, version)


_KEYS: Final = frozenset(int(key) for key in API_SPECS)


def _request_seeds() -> Iterator[bytes]:
    for spec in API_SPECS.values():
        for version in _versions(spec):
            header = encode_request_header(spec.key, version, 5, "client")
            yield header + encode(_filled(spec.request_class(), version), version)


def _read_response(data: bytes) -> None:
    if len(data) < 2 or data[0] not in _KEYS:
        return
    spec = API_SPECS[ApiKey(data[0])]
    version = data[1]
    if not spec.supports(version):
        return
    with suppress(MalformedMessage):
        _, position = decode_response_header(spec.key, version, data, 2)
        message, end = decode(spec.response_class(), version, data, position)
        assert position <= end <= len(data)
        _check_round_trip(message, version)


def _response_seeds() -> Iterator[bytes]:
    for spec in API_SPECS.values():
        for version in _versions(spec):
            header = encode_response_header(5, has_flexible_response_header(spec.key, version))
            body = encode(_filled(spec.response_class(), version), version)
            yield bytes((spec.key, version)) + header + body


def _read_member(data: bytes) -> None:
    with suppress(MalformedMessage):
        decode_subscription(data)
    with suppress(MalformedMessage):
        decode_assignment(data)


def _member_seeds() -> Iterator[bytes]:
    for version in range(4):
        subscription = _filled(ConsumerProtocolSubscription, version)
        assert isinstance(subscription, ConsumerProtocolSubscription)
        yield encode_subscription(subscription, version)
        assignment = _filled(ConsumerProtocolAssignment, version)
        assert isinstance(assignment, ConsumerProtocolAssignment)
        yield encode_assignment(assignment, version)


# A struct of one or two bytes on the wire becomes an object with lists.
_BYTES_PER_BYTE: Final = 1500
_BYTES_AT_MOST: Final = 1 << 18

REQUESTS: Final = Target("requests", _read_request, _request_seeds, _BYTES_AT_MOST, _BYTES_PER_BYTE)
RESPONSES: Final = Target("responses", _read_response, _response_seeds, _BYTES_AT_MOST, _BYTES_PER_BYTE)
MEMBERS: Final = Target("members", _read_member, _member_seeds, _BYTES_AT_MOST, _BYTES_PER_BYTE)
