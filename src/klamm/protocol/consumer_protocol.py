"""Encodes and decodes the consumers' data in JoinGroup and SyncGroup: subscription and assignment, version first.

After `ConsumerProtocol` of Apache Kafka 4.3. A version above the known ones is read as the highest known one, since new
versions only add fields at the end.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar

from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = ["decode_assignment", "decode_subscription", "encode_assignment", "encode_subscription"]

_VERSION: Final = Struct(">h")
_AnyMessage = TypeVar("_AnyMessage", bound=Message)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = 3) -> bytes:
    """Encodes the metadata of a joining member. Version 1 adds owned partitions, 2 generation, 3 rack."""
    return _VERSION.pack(version) + encode(subscription, version)


def decode_subscription(data: bytes | memoryview) -> ConsumerProtocolSubscription:
    """Decodes the subscription in a member's metadata. Raises MalformedMessage."""
    return _decode(ConsumerProtocolSubscription, data)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = 3) -> bytes:
    """Encodes the leader's assignment for one member; all versions have the same form. Raises as `encode`."""
    return _VERSION.pack(version) + encode(assignment, version)


def decode_assignment(data: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Decodes the leader's assignment for one member. Raises MalformedMessage."""
    return _decode(ConsumerProtocolAssignment, data)


def _decode(cls: type[_AnyMessage], data: bytes | memoryview) -> _AnyMessage:
    if len(data) < _VERSION.size:
        raise MalformedMessage(f"{cls.NAME}: too short to say its version")
    version: int = _VERSION.unpack_from(data)[0]
    low, high = cls.VERSIONS
    if version < low:
        raise MalformedMessage(f"{cls.NAME} has no version {version}")
    return decode(cls, min(version, high), data, _VERSION.size)[0]
