"""A connection that sends single requests of any version to a broker, for tests of single answers."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self, TypeVar

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import Message, decode, encode
from klamm.protocol.fetch_client import FetchResponse, decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchRequest
from klamm.protocol.headers import decode_response_header, encode_request_header
from klamm.protocol.produce import ProduceRequest
from klamm.protocol.produce_client import ProduceResponse, decode_produce_response, encode_produce_request

__all__ = ["Wire"]

M = TypeVar("M", bound=Message)


class Wire:
    """A connection to a broker. `call` raises ConnectionError if the broker closes the connection without an answer."""

    def __init__(self, bootstrap_servers: str, client_id: str = "wire") -> None:
        host, port = bootstrap_servers.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def call(self, response_class: type[M], version: int, request: Message) -> M:
        """Sends one request and returns its answer."""
        assert request.API_KEY is not None
        body = self.exchange(ApiKey(request.API_KEY), version, encode(request, version))
        response, end = decode(response_class, version, body)
        assert end == len(body), "the answer has bytes that its version does not know"
        return response

    def fetch(self, version: int, request: FetchRequest) -> FetchResponse:
        """Sends a Fetch request and returns its answer."""
        return decode_fetch_response(
            version, self.exchange(ApiKey.FETCH, version, encode_fetch_request(version, request))
        )

    def produce(self, version: int, request: ProduceRequest) -> ProduceResponse:
        """Sends a Produce request and returns its answer."""
        body = self.exchange(ApiKey.PRODUCE, version, encode_produce_request(version, request))
        return decode_produce_response(version, body)

    def exchange(self, api_key: ApiKey, version: int, body: bytes) -> memoryview:
        """Sends a body and returns the answer's body."""
        self.send(api_key, version, body)
        return self.receive(api_key, version)

    def send(self, api_key: ApiKey, version: int, body: bytes) -> None:
        """Sends a request without waiting for its answer."""
        self._correlation_id += 1
        header = encode_request_header(api_key, version, self._correlation_id, self._client_id)
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def receive(self, api_key: ApiKey, version: int, *, requests_behind: int = 0) -> memoryview:
        """Receives the next answer: to the last request, or to the request before the last `requests_behind` ones."""
        size = struct.unpack(">i", self._receive_exactly(4))[0]
        frame = memoryview(self._receive_exactly(size))
        correlation_id, end = decode_response_header(api_key, version, frame)
        assert correlation_id == self._correlation_id - requests_behind
        return frame[end:]

    def _receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError(f"the broker closed the connection after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)
