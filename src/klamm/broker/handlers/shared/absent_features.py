"""Refuses the APIs of absent features: share groups (KIP-932) and Streams groups (KIP-1071).

A broker of Apache Kafka 4.3 lists these APIs in ApiVersions even if `share.version` and `streams.version` are 0, and
answers UNSUPPORTED_VERSION. klamm does the same, because programs infer a broker's Kafka version from the list of APIs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.protocol.codec import Message

__all__ = ["refuse"]


def refuse(context: RequestContext, request: Message) -> Message:
    """Raises UNSUPPORTED_VERSION."""
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
