"""Answers with records that lie in files: the socket takes what it can straight from there, as in Apache Kafka.

It saves a copy of every byte. What the socket does not take at once is read into memory and left to the transport, so
nobody has to keep files open for clients that read slowly.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.storage.stored_batches import StoredBatches

if TYPE_CHECKING:
    import asyncio

__all__ = ["FileSender", "Part", "UnreadableRecords", "in_memory", "lie_in_files"]

Part: TypeAlias = "bytes | memoryview | StoredBatches"

AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""A client that reads as fast as it is sent to would keep the loop for as long as there is something to send."""


class UnreadableRecords(Exception):
    """An answer was begun whose records can't be read."""


class FileSender:
    """Sends over the socket of a transport that has nothing to write itself."""

    __slots__ = ("_socket",)

    def __init__(self, raw: socket.socket) -> None:
        # Not a second descriptor: it is the transport that closes this one.
        self._socket = socket.socket(raw.family, raw.type, raw.proto, fileno=raw.fileno())

    @classmethod
    def of(cls, transport: asyncio.Transport) -> FileSender | None:
        """None where a file can't be sent from: not by TLS, not by a socket that is none."""
        raw = transport.get_extra_info("socket")
        if raw is None or sys.platform != "linux" or transport.get_extra_info("sslcontext") is not None:
            return None
        return cls(raw)

    def close(self) -> None:
        """Leaves the socket to its transport. Must be called before that closes it for good."""
        self._socket.detach()

    def send(self, parts: Sequence[Part]) -> list[bytes | memoryview]:
        """Sends as much as the socket takes, and returns the rest.

        Raises ConnectionError when the client has gone, UnreadableRecords when no answer can come of this any more.
        """
        left_bytes = AT_ONCE_BYTES
        last = len(parts) - 1
        for index, part in enumerate(parts):
            sent = 0
            try:
                while sent < len(part) and left_bytes > 0:
                    if isinstance(part, StoredBatches):
                        taken = part.send(self._socket.fileno(), sent, left_bytes)
                    else:
                        flags = socket.MSG_MORE if index < last else 0
                        taken = self._socket.send(part[sent:] if sent else part, flags)
                    sent += taken
                    left_bytes -= taken
            except BlockingIOError:
                pass
            except ConnectionError:
                raise
            except OSError as error:
                if isinstance(part, StoredBatches):
                    part.failed()
                raise UnreadableRecords(str(error)) from error
            if sent < len(part):
                return in_memory(parts[index:], sent)
        return []


def lie_in_files(parts: Sequence[Part]) -> bool:
    """Whether any of the parts does."""
    return any(isinstance(part, StoredBatches) for part in parts)


def in_memory(parts: Sequence[Part], start: int = 0) -> list[bytes | memoryview]:
    """The parts with what lies in files read, from `start` in the first of them on. Raises UnreadableRecords."""
    read: list[bytes | memoryview] = []
    for part in parts:
        if isinstance(part, StoredBatches):
            try:
                read.append(part.read(start))
            except OSError as error:
                part.failed()
                raise UnreadableRecords(str(error)) from error
        else:
            read.append(memoryview(part)[start:] if start else part)
        start = 0
    return read
