"""Finished record batches on their way from a task to the driver: as bytes in the task's message, or in a file.

Both have the same format: for each batch the length of the topic's name (16 bits), the partition (32), the length of
the batch (32), then the name and the batch. The message says how many batches there are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from klamm.spark.sink.errors import StagingDamaged

__all__ = ["StagedBatch", "StagedTask", "batch_prefix", "read_batches"]

_PREFIX: Final = struct.Struct(">HiI")


class StagedBatch(NamedTuple):
    """A finished record batch and its partition."""

    topic: str
    partition: int
    data: bytes


@dataclass
class StagedTask(WriterCommitMessage):
    """What a task has staged; its message to the driver."""

    query_id: str
    batch_id: int
    run_id: str
    batches_count: int
    inline: bytes
    """The batches; empty if they are in the file."""
    file: str | None
    """The file's name in the staging folder; None if the batches are in the message."""


def batch_prefix(topic: str, partition: int, size_bytes: int) -> bytes:
    """Returns the bytes in front of a batch."""
    name = topic.encode()
    return _PREFIX.pack(len(name), partition, size_bytes) + name


def read_batches(file: IO[bytes], batches_count: int) -> Iterator[StagedBatch]:
    """Yields the batches. Raises `StagingDamaged` if there are fewer or more than `batches_count`."""
    for number in range(batches_count):
        name_bytes, partition, size_bytes = _PREFIX.unpack(_exactly(file, _PREFIX.size, number))
        topic = _exactly(file, name_bytes, number).decode()
        yield StagedBatch(topic, partition, _exactly(file, size_bytes, number))
    if file.read(1):
        raise StagingDamaged(f"there are more than {batches_count} batches")


def _exactly(file: IO[bytes], size_bytes: int, number: int) -> bytes:
    content = file.read(size_bytes)
    if len(content) != size_bytes:
        raise StagingDamaged(f"they end within batch {number}")
    return content
