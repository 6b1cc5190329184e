"""TCP ports for brokers that need some seconds to start, or that come back on the port they had."""

from __future__ import annotations

import random
import socket
from pathlib import Path

__all__ = ["free_port"]

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


def free_port() -> int:
    """Returns a port of 127.0.0.1 that no process uses.

    The system does not give this port to sockets that ask for any port, unless its range begins below 11,000. Such a
    port could go to another process while its owner starts, or is down.
    """
    end = int(_RANGE.read_text(encoding="ascii").split()[0]) if _RANGE.exists() else 32_768
    while True:
        port = random.randrange(_LOWEST, max(end, _LOWEST + 1_000))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
