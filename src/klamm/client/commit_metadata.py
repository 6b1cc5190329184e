"""The metadata of a committed offset, as librdkafka returns it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["metadata_of"]


class _Committed(Protocol):
    @property
    def metadata(self) -> str | None: ...


def metadata_of(committed: _Committed) -> str:
    """Returns the metadata of confluent-kafka's `TopicPartition`; the empty text if there is none.

    librdkafka may append bytes from the memory after the metadata, which may not be UTF-8.
    """
    try:
        return committed.metadata or ""
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "replace")
