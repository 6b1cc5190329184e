"""Sends requests faster than any client library: one connection speaks for thousands of clients.

The broker can't distinguish this from as many clients behind a proxy.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import Message, decode, encode
from klamm.protocol.headers import decode_response_header, encode_request_header
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

__all__ = ["Connection", "find_coordinators", "frame", "wait_for_coordinator"]

M = TypeVar("M", bound=Message)

_WINDOW = 100
_KEYS_AT_ONCE = 1_000
_ATTEMPTS = 300
_PAUSE_S = 0.1


def wait_for_coordinator(connection: Connection) -> None:
    """Waits until `__consumer_offsets` is created and loaded. Kafka creates it at the first request."""
    find = FindCoordinatorRequest(key="group")
    for _ in range(_ATTEMPTS):
        (found,) = connection.ask_all(FindCoordinatorResponse, 3, [find])
        if not found.error_code:
            break
        time.sleep(_PAUSE_S)
    else:
        raise TimeoutError("no group coordinator within half a minute")
    if found.port == connection.port:
        _wait_until_loaded(connection, "group")
    else:
        with Connection(f"{found.host}:{found.port}") as coordinator:
            _wait_until_loaded(coordinator, "group")
    time.sleep(1)  # The other partitions may still be loading.


def _wait_until_loaded(connection: Connection, group: str) -> None:
    fetch = OffsetFetchRequest(group_id=group, topics=[])
    for _ in range(_ATTEMPTS):
        (fetched,) = connection.ask_all(OffsetFetchResponse, 5, [fetch])
        if not fetched.error_code:
            return
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"the coordinator of {group} was not loaded within half a minute")


def find_coordinators(bootstrap_servers: str, groups: Sequence[str]) -> dict[str, list[str]]:
    """Returns the groups by the address of their coordinator, in their order; a single broker is named as it was given.

    Waits until `__consumer_offsets` exists. Raises RuntimeError if a coordinator is missing, TimeoutError.
    """
    found: dict[str, list[str]] = {}
    nodes = set()
    with Connection(bootstrap_servers) as connection:
        wait_for_coordinator(connection)
        for start in range(0, len(groups), _KEYS_AT_ONCE):
            request = FindCoordinatorRequest(coordinator_keys=list(groups[start : start + _KEYS_AT_ONCE]))
            (answer,) = connection.ask_all(FindCoordinatorResponse, 4, [request])
            for each in answer.coordinators:
                if each.error_code:
                    raise RuntimeError(f"{each.key} has no coordinator: error {each.error_code}")
                nodes.add(each.node_id)
                found.setdefault(f"{each.host}:{each.port}", []).append(each.key)
    if len(nodes) == 1:
        return {bootstrap_servers: list(groups)}
    for address, names in found.items():
        with Connection(address) as connection:
            _wait_until_loaded(connection, names[0])
    return found


def frame(version: int, request: Message) -> bytes:
    """Returns a request as bytes for the wire, with its length in front."""
    assert request.API_KEY is not None
    header = encode_request_header(request.API_KEY, version, 1, "bench")
    body = encode(request, version)
    return struct.pack(">i", len(header) + len(body)) + header + body


class Connection:
    """A connection with up to a hundred requests in flight."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.port = int(port)
        self._socket = socket.create_connection((host, self.port), timeout=60)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._socket.close()

    def ask_all(self, response_class: type[M], version: int, requests: Iterable[Message]) -> list[M]:
        """Sends the requests and returns the responses in their order."""
        answers: list[M] = []
        for window in _windows(list(requests)):
            self._socket.sendall(b"".join(frame(version, request) for request in window))
            answers.extend(self._receive(response_class, version, window) for _ in window)
        return answers

    def _receive(self, response_class: type[M], version: int, window: Sequence[Message]) -> M:
        api_key = window[0].API_KEY
        assert api_key is not None
        (length,) = struct.unpack(">i", self._file.read(4))
        frame = self._file.read(length)
        _, end = decode_response_header(ApiKey(api_key), version, frame)
        return decode(response_class, version, frame, end)[0]


def _windows(requests: Sequence[Message]) -> Iterator[Sequence[Message]]:
    for start in range(0, len(requests), _WINDOW):
        yield requests[start : start + _WINDOW]
