"""Sends responses whose records are still in files, with `sendfile`, as Apache Kafka does.

This saves a copy of every byte. Bytes that the socket does not accept at once are read into memory and passed to the
transport, so no file stays open for a slow client.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.storage.log.stored_batches import StoredBatches

if TYPE_CHECKING:
    import asyncio

__all__ = ["FileSender", "Part", "UnreadableRecords", "in_memory", "lie_in_files"]

Part: TypeAlias = "bytes | memoryview | StoredBatches"

AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""Limit for one response: without it, a fast client could hold the event loop until all bytes are sent."""


class UnreadableRecords(Exception):
    """Raised if the records of a response cannot be read from their file."""


class FileSender:
    """Sends over the socket of a transport. The transport must have no unsent bytes of its own."""

    __slots__ = ("_raw",)

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    @classmethod
    def of(cls, transport: asyncio.Transport) -> FileSender | None:
        """Returns a sender, or None if `sendfile` cannot be used: with TLS, without a real socket, or not on Linux."""
        raw = transport.get_extra_info("socket")
        if raw is None or sys.platform != "linux" or transport.get_extra_info("sslcontext") is not None:
            return None
        return cls(raw)

    def send(self, parts: Sequence[Part]) -> list[bytes | memoryview]:
        """Sends as much as the socket accepts, and returns the rest in memory.

        Raises ConnectionError if the client has closed the connection, UnreadableRecords if the response can't be
        completed.
        """
        # The transport's socket object has no `send`. A second object for the same descriptor must not outlive this
        # call: its collection would close the descriptor, which may belong to another connection by then.
        raw = self._raw
        sending = socket.socket(raw.family, raw.type, raw.proto, fileno=raw.fileno())
        try:
            return _send(sending, parts)
        finally:
            sending.detach()


def _send(to: socket.socket, parts: Sequence[Part]) -> list[bytes | memoryview]:
    left_bytes = AT_ONCE_BYTES
    last = len(parts) - 1
    for index, part in enumerate(parts):
        sent = 0
        try:
            while sent < len(part) and left_bytes > 0:
                if isinstance(part, StoredBatches):
                    taken = part.send(to.fileno(), sent, left_bytes)
                else:
                    flags = socket.MSG_MORE if index < last else 0
                    taken = to.send(part[sent:] if sent else part, flags)
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
    """Returns whether any part is in a file."""
    return any(isinstance(part, StoredBatches) for part in parts)


def in_memory(parts: Sequence[Part], start: int = 0) -> list[bytes | memoryview]:
    """Returns the parts without the first `start` bytes, and reads parts in files. Raises UnreadableRecords."""
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
