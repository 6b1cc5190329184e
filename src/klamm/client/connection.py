"""One blocking connection to one broker: requests go out in order, and their answers come back in that order.

Several requests may be under way at once (`send`, `send`, `receive`, `receive`), so that a round over many partitions
costs one round trip. A connection that failed stays closed; the pool makes a new one.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from typing import Final, NamedTuple, TypeVar

from klamm._version import __version__
from klamm.client.config import Address, ClientConfig
from klamm.client.errors import ConnectionFailed, RequestTimedOut, UnsupportedByBroker
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import ApiVersionsResponse

__all__ = ["Connection", "Pending"]

_REQUEST_PREFIX: Final = struct.Struct(">ihhih")
_RESPONSE_PREFIX: Final = struct.Struct(">ii")
# Far above any answer that our own limits allow; what lies beyond is another protocol's text taken for a length.
_MAXIMUM_RESPONSE_BYTES: Final = 1 << 30
_API_VERSIONS: Final = 18

M = TypeVar("M", bound=Message)


class Pending(NamedTuple):
    """A request that was sent and is not answered yet."""

    correlation_id: int
    api_key: int
    version: int
    flexible: bool
    deadline: float
    """On the monotonic clock, in seconds."""


class Connection:
    """A connection whose API versions are negotiated. Not thread-safe.

    Every method raises `ConnectionFailed` when the peer can't be reached or hangs up, `RequestTimedOut` when it
    doesn't answer within `request.timeout.ms`; both close the connection.
    """

    def __init__(self, address: Address, config: ClientConfig) -> None:
        self.peer = f"{address[0]}:{address[1]}"
        self._config = config
        self._client_id = config.client_id.encode()
        self._next_correlation_id = 0
        self._pending: deque[Pending] = deque()
        self._abandoned: set[int] = set()
        self._answers: dict[int, memoryview] = {}
        self._versions: dict[int, tuple[int, int]] = {}
        self.is_closed = False
        self._socket = self._connect(address)
        try:
            self._versions = self._negotiate()
        except BaseException:
            self.close()
            raise

    def _connect(self, address: Address) -> socket.socket:
        timeout_ms = self._config.socket_connection_setup_timeout_ms
        try:
            connected = socket.create_connection(address, timeout=timeout_ms / 1000)
        except OSError as error:
            raise ConnectionFailed(
                f"no connection to the broker at {self.peer}: {error}. "
                "Is a broker running there, and is the address right?"
            ) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._config.receive_buffer_bytes >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._config.receive_buffer_bytes)
        if self._config.send_buffer_bytes >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.send_buffer_bytes)
        return connected

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        """Asks for the broker's versions; a broker that doesn't know ours answers in version 0 (KIP-511)."""
        request = ApiVersionsRequest(client_software_name="klamm", client_software_version=__version__)
        version = ApiVersionsRequest.VERSIONS[1]
        body = self._receive_body(self._send_body(_API_VERSIONS, version, encode(request, version), True))
        if len(body) >= 2 and int.from_bytes(body[:2], "big", signed=True) == ErrorCode.unsupported_version:
            refusal, _ = decode(ApiVersionsResponse, 0, body)
            ranges = {key.api_key: key.max_version for key in refusal.api_keys}
            version = min(version, ranges.get(_API_VERSIONS, 0))
            flexible = version >= 3
            body = self._receive_body(self._send_body(_API_VERSIONS, version, encode(request, version), flexible))
        answer = self._decode(ApiVersionsResponse, version, body)
        if answer.error_code != ErrorCode.none:
            raise ConnectionFailed(
                f"the broker at {self.peer} refused to name its API versions: error code {answer.error_code}"
            )
        return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}

    def version_of(self, api_key: int, name: str, lowest: int, highest: int) -> int:
        """The highest version of an API that both sides know. Raises `UnsupportedByBroker` if there is none."""
        offered = self._versions.get(api_key)
        if offered is None:
            raise UnsupportedByBroker(f"the broker at {self.peer} does not offer {name} (API key {api_key})")
        version = min(highest, offered[1])
        if version < max(lowest, offered[0]):
            raise UnsupportedByBroker(
                f"the broker at {self.peer} offers {name} in versions {offered[0]} to {offered[1]}; this client needs "
                f"one of {lowest} to {highest}"
            )
        return version

    def send(self, request: Message, *, highest_version: int | None = None) -> Pending:
        """Sends a request in the highest version both sides know, up to `highest_version`, and returns at once."""
        cls = type(request)
        lowest, highest = cls.VERSIONS
        if cls.API_KEY is None:
            raise ValueError(f"{cls.NAME} is not a request")
        version = self.version_of(
            cls.API_KEY, cls.NAME, lowest, highest if highest_version is None else min(highest, highest_version)
        )
        flexible = cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM
        return self._send_body(cls.API_KEY, version, encode(request, version), flexible)

    def receive(self, pending: Pending, answer: type[M]) -> M:
        """The answer to a request that `send` sent, decoded."""
        return self._decode(answer, pending.version, self._receive_body(pending))

    def request(self, request: Message, answer: type[M], *, highest_version: int | None = None) -> M:
        """Sends a request and waits for its answer."""
        return self.receive(self.send(request, highest_version=highest_version), answer)

    def send_body(self, api_key: int, version: int, body: bytes | bytearray, *, flexible: bool) -> Pending:
        """Sends a request body that the caller encoded (Fetch has a codec of its own)."""
        return self._send_body(api_key, version, body, flexible)

    def receive_body(self, pending: Pending) -> memoryview:
        """The answer's body as it came, for a caller that decodes it."""
        return self._receive_body(pending)

    def abandon(self, pending: Pending) -> None:
        """Forgets a request whose answer nobody wants any more; the answer is dropped when it comes."""
        if self._answers.pop(pending.correlation_id, None) is None and pending in self._pending:
            self._abandoned.add(pending.correlation_id)

    def close(self) -> None:
        """Closes the socket. Safe to call twice."""
        self.is_closed = True
        self._socket.close()

    def _send_body(self, api_key: int, version: int, body: bytes | bytearray, flexible: bool) -> Pending:
        if self.is_closed:
            raise ConnectionFailed(f"the connection to the broker at {self.peer} is closed")
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFF_FFFF
        correlation_id = self._next_correlation_id
        tags = b"\x00" if flexible else b""
        size = _REQUEST_PREFIX.size - 4 + len(self._client_id) + len(tags) + len(body)
        prefix = _REQUEST_PREFIX.pack(size, api_key, version, correlation_id, len(self._client_id))
        timeout = self._config.request_timeout_ms / 1000
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(b"".join((prefix, self._client_id, tags, body)))
        except OSError as error:
            raise self._broken(error) from error
        pending = Pending(correlation_id, api_key, version, flexible, time.monotonic() + timeout)
        self._pending.append(pending)
        return pending

    def _receive_body(self, pending: Pending) -> memoryview:
        while (answer := self._answers.pop(pending.correlation_id, None)) is None:
            if self.is_closed:
                raise ConnectionFailed(f"the connection to the broker at {self.peer} is closed")
            self._receive_next(pending.deadline)
        # ApiVersions answers have header version 0 whatever their own version is, so that any client can read them.
        if pending.flexible and pending.api_key != _API_VERSIONS:
            return self._without_tags(answer)
        return answer

    def _receive_next(self, deadline: float) -> None:
        """Reads one answer from the socket and files it."""
        expected = self._pending.popleft()
        try:
            prefix = self._read(_RESPONSE_PREFIX.size, deadline)
            size, correlation_id = _RESPONSE_PREFIX.unpack(prefix)
            if correlation_id != expected.correlation_id or not 4 <= size <= _MAXIMUM_RESPONSE_BYTES:
                self.close()
                raise ConnectionFailed(
                    f"the peer at {self.peer} does not answer like a Kafka broker without encryption (size {size}, "
                    f"correlation id {correlation_id}): is the address right, and is its listener PLAINTEXT?"
                )
            body = self._read(size - 4, deadline)
        except TimeoutError:
            self.close()
            raise RequestTimedOut(
                f"the broker at {self.peer} did not answer within request.timeout.ms={self._config.request_timeout_ms}"
            ) from None
        except OSError as error:
            raise self._broken(error) from error
        if correlation_id in self._abandoned:
            self._abandoned.discard(correlation_id)
        else:
            self._answers[correlation_id] = memoryview(body)

    def _read(self, size: int, deadline: float) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        position = 0
        while position < size:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining)
            received = self._socket.recv_into(view[position:])
            if received == 0:
                raise ConnectionResetError("the broker hung up")
            position += received
        return buffer

    def _without_tags(self, answer: memoryview) -> memoryview:
        """The body behind a flexible header's tagged fields, of which this client knows none."""
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
        self.close()
        raise ConnectionFailed(f"the broker at {self.peer} sent a malformed response header")

    def _decode(self, answer: type[M], version: int, body: memoryview) -> M:
        try:
            message, _ = decode(answer, version, body)
        except MalformedMessage as error:
            self.close()
            raise ConnectionFailed(f"the broker at {self.peer} sent a malformed {answer.NAME}: {error}") from error
        return message

    def _broken(self, error: OSError) -> ConnectionFailed:
        self.close()
        return ConnectionFailed(f"the connection to the broker at {self.peer} broke: {error}")
