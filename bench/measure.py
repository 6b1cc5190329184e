"""Measures a broker process from outside: its first response, its memory, its processor time, its requests."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cpu_seconds", "process_tree", "received_segments", "resident_bytes", "wait_for_first_answer"]

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAUSE_SECONDS = 0.0005
_CONNECTION = re.compile(r"ESTAB +\d+ +\d+ +\S+:(\d+) +(\S+).*?(?:data_segs_in:(\d+)|$)")


def _ask(connection: socket.socket, api_key: int, api_version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, api_version, 1, 5) + b"bench"
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
        received = connection.recv(65536)
        if not received:
            raise ConnectionError("closed before the answer was complete")
        answer += received
    return answer[8:]


def wait_for_first_answer(port: int, timeout_seconds: float = 60.0) -> float:
    """Waits until the broker on `port` names a broker in a Metadata response; returns time.monotonic() at that moment.

    A bound socket does not count, nor does a Metadata response without brokers, since no client can use it. Raises
    TimeoutError.
    """
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.settimeout(2)
                _ask(connection, 18, 0, b"")
                while time.monotonic() < deadline:
                    metadata = _ask(connection, 3, 1, struct.pack(">i", 0))
                    if struct.unpack_from(">i", metadata)[0] > 0:
                        return time.monotonic()
                    time.sleep(_PAUSE_SECONDS)
        except (OSError, struct.error):
            time.sleep(_PAUSE_SECONDS)
    raise TimeoutError(f"nothing on port {port} named a broker within {timeout_seconds:g} s")


def received_segments(ports: frozenset[int]) -> dict[tuple[int, str], int]:
    """Returns the number of TCP segments with data that came on each connection to these local ports.

    A small request is one segment. The key is the local port and the address of the other side. Raises OSError if `ss`
    is not installed.
    """
    listed = subprocess.run(["ss", "-tinHO"], capture_output=True, text=True, check=True).stdout
    return {key: count for key, count in _segments(listed) if key[0] in ports}


def _segments(listed: str) -> Iterator[tuple[tuple[int, str], int]]:
    for line in listed.splitlines():
        if found := _CONNECTION.match(line):
            yield (int(found[1]), found[2]), int(found[3] or 0)


def process_tree(process_id: int) -> list[int]:
    """Returns the ids of the process and all its descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(after_name[1]), []).append(int(folder.name))
    found = [process_id]
    for process in found:
        found.extend(children.get(process, ()))
    return found


def resident_bytes(process_id: int) -> int:
    """Returns the resident memory of the process and its descendants, as in `ps` (shared pages count for each)."""
    total = 0
    for process in process_tree(process_id):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total


def cpu_seconds(process_id: int) -> float:
    """Returns the processor time, user and system, of the process and its living descendants."""
    ticks = 0
    for process in process_tree(process_id):
        try:
            after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended since
            continue
        ticks += int(after_name[11]) + int(after_name[12])
    return ticks / _CLOCK_TICKS
