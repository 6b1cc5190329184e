"""Reads the resident memory of a process and the unread bytes of its sockets from the kernel."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["resident_bytes", "wait_until", "wait_until_received"]

DEADLINE_S = 120


def resident_bytes(pid: int) -> int:
    """Returns the resident memory of the process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds. Raises AssertionError after 120 seconds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {DEADLINE_S} s"
        time.sleep(0.05)


def wait_until_received(connections: Sequence[socket.socket]) -> None:
    """Waits until the peer has read all bytes that were sent over these connections to 127.0.0.1."""
    ports = {connection.getsockname()[1] for connection in connections}
    wait_until(lambda: not _bytes_on_the_way(ports))


def _bytes_on_the_way(ports: set[int]) -> int:
    """Returns the bytes that were sent from these local ports and not read by the peer, in the queues of both ends."""
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        sent, received = (int(part, 16) for part in queues.split(":"))
        if int(local.split(":")[1], 16) in ports:
            total += sent
        if int(remote.split(":")[1], 16) in ports:
            total += received
    return total
