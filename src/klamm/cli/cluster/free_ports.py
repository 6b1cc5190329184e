"""Ports that a cluster keeps: chosen once, free at that time, and seldom taken by other programs later."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["free_ports", "is_free"]

_EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_EPHEMERAL_START: Final = 32_768
_LOWEST: Final = 10_000
_SMALLEST_RANGE: Final = 1_000


def free_ports(host: str) -> Iterator[int]:
    """Yields different ports that no program listens on.

    The system gives these ports to no outgoing connection, unless its range begins below 11,000. Such a port could be
    taken while its member does not run.
    """
    try:
        end = int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except OSError:
        end = _USUAL_EPHEMERAL_START
    candidates = range(_LOWEST, max(end, _LOWEST + _SMALLEST_RANGE))
    return (port for port in random.sample(candidates, len(candidates)) if is_free(host, port))


def is_free(host: str, port: int) -> bool:
    """Returns whether a server can listen on the port now."""
    with socket.socket() as probe:
        # Connections of a server that has stopped do not keep the next one from the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
