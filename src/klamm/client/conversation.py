"""The protocol of one connection, without the socket: frames, correlation ids, versions, authentication.

A connection (`connection.py` blocking, `aio.py` for asyncio) owns the socket; this module is common to both and does no
I/O. To send, the connection takes a `Frame`, calls `sent` and writes its data. To receive, it fills `buffer` and calls
`filled`. Responses arrive in the order of the requests and are kept until the connection `take`s them. An exchange of
several requests (versions, SASL) is a `Dialogue`: a generator that yields frames and is sent the bodies of their
responses. The clock is an argument.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple, TypeVar

from klamm._version import __version__
from klamm.client.config import ClientConfig
from klamm.client.errors import AuthenticationFailed, ConnectionFailed, RequestTimedOut, UnsupportedByBroker
from klamm.client.sasl import SaslConfig, new_exchange
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import ApiVersionsResponse
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_authenticate_response import SaslAuthenticateResponse
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.sasl_handshake_response import SaslHandshakeResponse

__all__ = ["Conversation", "Dialogue", "Frame", "Offers", "Pending", "common_version"]

_REQUEST_PREFIX: Final = struct.Struct(">ihhih")
_RESPONSE_PREFIX: Final = struct.Struct(">ii")
# Far above any response that the client's limits allow. A larger size is text of another protocol, read as a length.
_MAXIMUM_RESPONSE_BYTES: Final = 1 << 30
_API_VERSIONS: Final = 18
# Memory is reused only for a response that fills at least a quarter of it.
_LARGEST_SPARE_RATIO: Final = 4
# Since this version of SaslHandshake, tokens are sent in SaslAuthenticate and not bare (KIP-152).
_HANDSHAKE_BEFORE_SASL_AUTHENTICATE: Final = 1
# KIP-368: early enough for the response to arrive in time; random, to spread the connections.
_SHARE_OF_SESSION_LIFETIME: Final = (0.85, 0.95)

M = TypeVar("M", bound=Message)


class Pending(NamedTuple):
    """A request in flight."""

    correlation_id: int
    api_key: int
    version: int
    flexible: bool
    deadline: float
    """On the monotonic clock, in seconds."""


class Frame(NamedTuple):
    """A request, ready to be written."""

    pending: Pending
    data: bytes
    has_response: bool = True
    """False for a Produce request with `acks=0`, which is not answered."""


class Offers(NamedTuple):
    """The versions and features that a broker reports when a connection is opened (ApiVersions)."""

    versions: Mapping[int, tuple[int, int]]
    """Lowest and highest version of each API key."""
    finalized_features: Mapping[str, int]
    """The levels of the cluster's finalized features."""
    finalized_features_epoch: int
    """Rises with each change of the features; -1 if the broker names none."""


Dialogue = Generator[Frame, memoryview, None]
"""Yields frames to send, and is sent the body of each frame's response."""


def common_version(
    offered_versions: Mapping[int, tuple[int, int]], peer: str, api_key: int, name: str, *, lowest: int, highest: int
) -> int:
    """Returns the highest version that a broker offers and this client knows. Raises `UnsupportedByBroker` if there is
    none."""
    offered = offered_versions.get(api_key)
    if offered is None:
        raise UnsupportedByBroker(f"the broker at {peer} does not offer {name} (API key {api_key})")
    version = min(highest, offered[1])
    if version < max(lowest, offered[0]):
        raise UnsupportedByBroker(
            f"the broker at {peer} offers {name} in versions {offered[0]} to {offered[1]}; this client needs "
            f"one of {lowest} to {highest}"
        )
    return version


class Conversation:
    """The protocol state of one connection to a broker.

    A malformed response raises `ConnectionFailed`. The connection must then be closed, since the rest of the stream
    can't be trusted.
    """

    def __init__(self, peer: str, config: ClientConfig, clock: Callable[[], float]) -> None:
        self.peer = peer
        self.is_open = False
        """Whether the opening has finished: API versions and, if configured, SASL authentication."""
        self._config = config
        self._client_id = config.client_id.encode()
        self._clock = clock
        self._next_correlation_id = 0
        self._sent: deque[Pending] = deque()
        self._abandoned: set[int] = set()
        self._answers: dict[int, memoryview] = {}
        self.offers = Offers({}, {}, -1)
        self._has_answered = False
        self._reauthentication_time = float("inf")
        self._buffer = bytearray(_RESPONSE_PREFIX.size)
        self._view = self._answer = memoryview(self._buffer)
        self._correlation_id: int | None = None
        self._spare: bytearray | None = None

    # Sending.

    def version_of(self, api_key: int, name: str, lowest: int, highest: int) -> int:
        """Returns the highest API version that both sides know. Raises `UnsupportedByBroker` if there is none."""
        return common_version(self.offers.versions, self.peer, api_key, name, lowest=lowest, highest=highest)

    def frame(
        self, api_key: int, version: int, body: bytes | bytearray, *, flexible: bool, has_response: bool = True
    ) -> Frame:
        """Returns the frame of an encoded request. Its deadline is `request.timeout.ms` from now."""
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFF_FFFF
        correlation_id = self._next_correlation_id
        tags = b"\x00" if flexible else b""
        size = _REQUEST_PREFIX.size - 4 + len(self._client_id) + len(tags) + len(body)
        prefix = _REQUEST_PREFIX.pack(size, api_key, version, correlation_id, len(self._client_id))
        deadline = self._clock() + self._config.request_timeout_ms / 1000
        pending = Pending(correlation_id, api_key, version, flexible, deadline)
        return Frame(pending, b"".join((prefix, self._client_id, tags, body)), has_response)

    def request(self, request: Message, *, lowest_version: int = 0, highest_version: int | None = None) -> Frame:
        """Returns the frame of a request in the highest version that both sides know, within the given limits."""
        cls = type(request)
        lowest, highest = cls.VERSIONS
        if cls.API_KEY is None:
            raise ValueError(f"{cls.NAME} is not a request")
        version = self.version_of(
            cls.API_KEY,
            cls.NAME,
            max(lowest, lowest_version),
            highest if highest_version is None else min(highest, highest_version),
        )
        flexible = cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM
        return self.frame(cls.API_KEY, version, encode(request, version), flexible=flexible)

    def sent(self, frame: Frame) -> None:
        """Notes that the frame is being written: its response follows those of the frames before it."""
        if frame.has_response:
            self._sent.append(frame.pending)

    # Receiving.

    def buffer(self) -> memoryview:
        """Returns the memory for the next bytes from the socket; never empty."""
        return self._view

    def filled(self, size_bytes: int) -> int | None:
        """Processes the first `size_bytes` of `buffer`. Returns the correlation id of a response that they complete,
        else None.

        Raises `ConnectionFailed` for bytes that no broker would send.
        """
        self._view = self._view[size_bytes:]
        if len(self._view):
            return None
        if self._correlation_id is None:
            size, correlation_id = _RESPONSE_PREFIX.unpack(self._buffer)
            expected = self._sent[0].correlation_id if self._sent else None
            if correlation_id != expected or not 4 <= size <= _MAXIMUM_RESPONSE_BYTES:
                raise ConnectionFailed(
                    f"the peer at {self.peer} does not answer like a Kafka broker (size {size}, correlation id "
                    f"{correlation_id}): is the address right, and is its listener one for security.protocol="
                    f"{self._config.security.protocol}?"
                )
            self._correlation_id = correlation_id
            self._view = self._answer = self._memory(size - 4)
            if len(self._view):
                return None
        return self._file_answer(self._correlation_id)

    def _file_answer(self, correlation_id: int) -> int:
        self._sent.popleft()
        if correlation_id in self._abandoned:
            self._abandoned.discard(correlation_id)
        else:
            self._answers[correlation_id] = self._answer
        self._has_answered = self._has_answered or self.is_open
        self._correlation_id = None
        self._view = memoryview(self._buffer)
        return correlation_id

    def _memory(self, size_bytes: int) -> memoryview:
        spare = self._spare
        if spare is not None and len(spare) // _LARGEST_SPARE_RATIO <= size_bytes <= len(spare):
            self._spare = None
            return memoryview(spare)[:size_bytes]
        return memoryview(bytearray(size_bytes))

    def recycle(self, body: memoryview) -> None:
        """Takes a body's memory back for a later response. The body, or a slice of it, must not be read again.

        Saves large responses the clearing of new memory.
        """
        if isinstance(body.obj, bytearray):
            self._spare = body.obj

    def take(self, pending: Pending) -> memoryview | None:
        """Removes and returns the body of a request's response; None as long as it has not arrived."""
        answer = self._answers.pop(pending.correlation_id, None)
        # ApiVersions responses always have header version 0, so that any client can read them.
        if answer is None or not pending.flexible or pending.api_key == _API_VERSIONS:
            return answer
        return self._without_tags(answer)

    def abandon(self, pending: Pending) -> None:
        """Forgets a request; its response is dropped when it arrives."""
        if self._answers.pop(pending.correlation_id, None) is None and any(
            sent.correlation_id == pending.correlation_id for sent in self._sent
        ):
            self._abandoned.add(pending.correlation_id)

    def renewed(self, pending: Pending) -> Pending:
        """Returns the request with a new deadline, `request.timeout.ms` from now."""
        return pending._replace(deadline=self._clock() + self._config.request_timeout_ms / 1000)

    def read(self, answer: type[M], version: int, body: memoryview) -> M:
        """Decodes the body of a response. Raises `ConnectionFailed` if it is malformed."""
        try:
            message, _ = decode(answer, version, body)
        except MalformedMessage as error:
            raise ConnectionFailed(f"the broker at {self.peer} sent a malformed {answer.NAME}: {error}") from error
        return message

    # Errors.

    def timed_out(self) -> RequestTimedOut:
        """Returns the error for a response that did not arrive in time."""
        return RequestTimedOut(
            f"the broker at {self.peer} did not answer within request.timeout.ms={self._config.request_timeout_ms}"
        )

    def broken(self, reason: object) -> ConnectionFailed:
        """Returns the error for a connection that broke."""
        # A listener with another security protocol closes the connection at the first bytes, or at the first real
        # request.
        hint = (
            ""
            if self._has_answered
            else f" (is its listener one for security.protocol={self._config.security.protocol}?)"
        )
        return ConnectionFailed(f"the connection to the broker at {self.peer} broke: {reason}{hint}")

    # Exchanges of several requests.

    def opening(self) -> Dialogue:
        """Negotiates the API versions and authenticates the client. Raises `AuthenticationFailed` if the broker
        refuses."""
        yield from self._negotiation()
        if self._config.security.sasl is not None:
            yield from self._authentication(self._config.security.sasl)
        self.is_open = True

    def reauthentication(self) -> Dialogue | None:
        """Returns the dialogue to run before the next request if the session is about to expire (KIP-368), else None.

        The dialogue raises `AuthenticationFailed` if the broker refuses.
        """
        sasl = self._config.security.sasl
        if sasl is None or self._clock() < self._reauthentication_time:
            return None
        return self._authentication(sasl)

    def _negotiation(self) -> Dialogue:
        """Requests the broker's API versions. A broker that does not know our version responds in version 0
        (KIP-511)."""
        request = ApiVersionsRequest(client_software_name="klamm", client_software_version=__version__)
        version = ApiVersionsRequest.VERSIONS[1]
        body = yield self.frame(_API_VERSIONS, version, encode(request, version), flexible=True)
        if len(body) >= 2 and int.from_bytes(body[:2], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
            refusal = self.read(ApiVersionsResponse, 0, body)
            ranges = {key.api_key: key.max_version for key in refusal.api_keys}
            version = min(version, ranges.get(_API_VERSIONS, 0))
            body = yield self.frame(_API_VERSIONS, version, encode(request, version), flexible=version >= 3)
        answer = self.read(ApiVersionsResponse, version, body)
        if answer.error_code != ErrorCode.NONE:
            raise ConnectionFailed(
                f"the broker at {self.peer} refused to name its API versions: error code {answer.error_code}"
            )
        self.offers = Offers(
            {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys},
            {feature.name: feature.max_version_level for feature in answer.finalized_features},
            answer.finalized_features_epoch,
        )

    def _authentication(self, sasl: SaslConfig) -> Dialogue:
        """Sends SaslHandshake, then the mechanism's tokens in SaslAuthenticate (KIP-152)."""
        yield from self._handshake(sasl.mechanism)
        exchange = new_exchange(sasl)
        token: bytes | None = exchange.first()
        lifetime_ms = 0
        while token is not None:
            frame = self.request(SaslAuthenticateRequest(auth_bytes=token))
            body = yield frame
            answer = self.read(SaslAuthenticateResponse, frame.pending.version, body)
            if answer.error_code != ErrorCode.NONE:
                raise self._refused(answer.error_code, answer.error_message)
            lifetime_ms = answer.session_lifetime_ms
            token = exchange.answer(answer.auth_bytes)
        share = random.uniform(*_SHARE_OF_SESSION_LIFETIME)
        self._reauthentication_time = self._clock() + lifetime_ms / 1000 * share if lifetime_ms > 0 else float("inf")

    def _handshake(self, mechanism: str) -> Dialogue:
        frame = self.request(
            SaslHandshakeRequest(mechanism=mechanism), lowest_version=_HANDSHAKE_BEFORE_SASL_AUTHENTICATE
        )
        body = yield frame
        answer = self.read(SaslHandshakeResponse, frame.pending.version, body)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise AuthenticationFailed(
                f"the broker at {self.peer} has no sasl.mechanism={mechanism} on this listener; it has "
                f"{', '.join(answer.mechanisms) or 'none'}"
            )
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(
                f"the broker at {self.peer} does not take SASL on this listener: its security.protocol is another than "
                f"{self._config.security.protocol}"
            )
        if answer.error_code != ErrorCode.NONE:
            raise self._refused(answer.error_code, None)

    def _refused(self, code: int, message: str | None) -> AuthenticationFailed:
        sasl = self._config.security.sasl
        assert sasl is not None
        try:
            name = ErrorCode(code).name
        except ValueError:
            name = f"error code {code}"
        return AuthenticationFailed(
            f"the broker at {self.peer} does not accept {sasl.username!r} with sasl.mechanism={sasl.mechanism}: "
            f"{name}: {message or 'it gave no reason'}"
        )

    def _without_tags(self, answer: memoryview) -> memoryview:
        """Returns the body after a flexible header's tagged fields, of which this client knows none."""
        count, position = self._read_varint(answer, 0)
        for _ in range(count):
            _, position = self._read_varint(answer, position)
            size, position = self._read_varint(answer, position)
            position += size
        return answer[position:]

    def _read_varint(self, view: memoryview, position: int) -> tuple[int, int]:
        value = shift = 0
        while position < len(view) and shift < 35:
            byte = view[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
            shift += 7
        raise ConnectionFailed(f"the broker at {self.peer} sent a malformed response header")
