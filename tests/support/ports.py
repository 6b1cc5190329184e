"""TCP ports for brokers that need some seconds to start, or that come back on the port they had."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["free_port"]

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_taken: set[int] = set()
"""The ports that this process has returned."""


def free_port() -> int:
    """Returns a port of 127.0.0.1 that no process uses, and that no other process of the tests gets from here.

    The system does not give this port to sockets that ask for any port, unless its range begins below 11,000. Such a
    port could go to another process while its owner starts, or is down.
    """
    end = int(_RANGE.read_text(encoding="ascii").split()[0]) if _RANGE.exists() else 32_768
    while True:
        port = random.randrange(_LOWEST, max(end, _LOWEST + 1_000))
        if port in _taken or not _reserve(port):
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _taken.add(port)
            return port


def _reserve(port: int) -> bool:
    """Locks the byte of this port in a file of all test processes. The end of this process releases the lock."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@cache
def _reservations() -> int:
    """Returns the descriptor of the file. It stays open, because closing it would release all locks of the process."""
    path = Path(tempfile.gettempdir()) / f"klamm-tests-ports-{os.getuid()}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
