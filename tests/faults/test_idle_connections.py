"""Tests that thousands of idle connections use a few kilobytes each and do not delay other clients."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.socket_reads import receive_exactly
from tests.support.wire import Wire

from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import ApiVersionsResponse
from klamm.testing import Broker

CONNECTIONS = 5000
AT_ONCE = 40
"""Fewer than `socket.listen.backlog.size`, because a connection waits for a second when that queue is full."""
BYTES_EACH = 6000
CORRELATION_ID = b"\0\0\0\7"
FRAME = b"\0\0\0\x0a" + b"\0\x12\0\0" + CORRELATION_ID + b"\xff\xff"
"""ApiVersions in version 0, without a client id."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """Raises the limit of open files, because both ends of every connection are files of this process."""
    needed = 2 * CONNECTIONS + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"this needs {needed} files, and {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_bytes() -> int:
    """Returns the resident memory of this process, which includes the broker."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.usefixtures("many_files")
def test_five_thousand_idle_connections() -> None:
    """Five thousand idle connections use less than 6000 bytes each. A few of them then get answers to requests, and
    another client is served meanwhile."""
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        host, port = broker.bootstrap_servers.split(":")
        request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        wire.call(ApiVersionsResponse, 3, request)
        before = resident_bytes()
        idle = []
        for _ in range(CONNECTIONS // AT_ONCE):
            idle += [socket.create_connection((host, int(port)), timeout=60) for _ in range(AT_ONCE)]
            wire.call(ApiVersionsResponse, 3, request)
        assert resident_bytes() - before < CONNECTIONS * BYTES_EACH
        for connection in (idle[0], idle[CONNECTIONS // 2], idle[-1]):
            connection.sendall(FRAME)
            assert receive_exactly(connection, 8)[4:] == CORRELATION_ID
        for connection in idle:
            connection.close()
        wire.call(ApiVersionsResponse, 3, request)
