"""Sends answers whose records are still in files: with `sendfile`, as Apache Kafka does.

This saves a copy of every byte. What the socket does not take at once is read into memory and left to the transport, so
no file stays open for a slow client.
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
"""Limit for one answer: a fast client could hold the event loop for as long as there are bytes."""


class UnreadableRecords(Exception):
    """The records of an answer that has begun can't be read."""


class FileSender:
    """Sends over the socket of a transport. The transport must have no unsent bytes of its own."""

    __slots__ = ("_raw",)

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    @classmethod
    def of(cls, transport: asyncio.Transport) -> FileSender | None:
        """Returns a sender, or None where `sendfile` does not work: with TLS, or without a real socket."""
        raw = transport.get_extra_info("socket")
        if raw is None or sys.platform != "linux" or transport.get_extra_info("sslcontext") is not None:
            return None
        return cls(raw)

    def send(self, parts: Sequence[Part]) -> list[bytes | memoryview]:
        """Sends as much as the socket takes, and returns the rest in memory.

        Raises ConnectionError if the client has closed the connection, UnreadableRecords if the answer can't be
        completed.
        """
        # The transport's own object has no `send`. A second one for the same descriptor must not outlive this call:
        # once collected it would close the descriptor, which may be another connection's by then.
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
    """Whether any part lies in a file."""
    return any(isinstance(part, StoredBatches) for part in parts)


def in_memory(parts: Sequence[Part], start: int = 0) -> list[bytes | memoryview]:
    """Returns the parts without the first `start` bytes, with those in files read. Raises UnreadableRecords."""
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
