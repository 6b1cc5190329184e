"""A record as handlers get it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Record", "headers_size_bytes"]


@dataclass(slots=True)
class Record:
    """A record of a topic. Its values are plain, so that it can cross to another process."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: Any
    """The value as `decode` returns it; without `decode`, the bytes."""
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    timestamp_ms: int = -1
    attempt: int = 1
    """1 for the first call of the handler with this record, as far as this member knows."""

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.topic}-{self.partition}"


def headers_size_bytes(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Returns the size of names and values, without what Python adds to each object."""
    return sum(len(name) + len(value or b"") for name, value in headers)
