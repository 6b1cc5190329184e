"""Bits that flip while a machine is down, and flip back when a file is restored from a copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import batch_crc_is_valid, read_batch_header
from klamm.protocol.types import TopicPartition
from klamm.storage.log_files import LOG_SUFFIX, SWAP_SUFFIX

__all__ = ["Flip", "flip_a_bit"]

_UNCOVERED_BYTES = 16
"""Base offset, length and leader epoch are not covered by a batch's CRC, so damage to them may stay unnoticed."""
_PRODUCER_FIELDS = range(43, 57)
_PAYLOAD_BYTES = 61
"""A start reads the state of producers from the headers alone. So only a reader finds damage there; until then the
state of these producers may be wrong.
"""

Turn = Callable[[Path, int, int], None]
"""Flips a bit of a byte of a file: `Device.turn`."""


class Flip(NamedTuple):
    """One flipped bit of one batch. `content` is the batch with the flipped bit."""

    where: TopicPartition
    path: Path
    position: int
    base_offset: int
    cut_at: int
    """The end of the log if it is truncated there; after compaction it may be below the batch."""
    content: bytes
    at: int
    bit: int

    @property
    def is_there(self) -> bool:
        """Whether the file still contains the damaged batch."""
        return self._file is not None

    def mend(self, turn: Turn) -> None:
        """Flips the bit back."""
        file = self._file
        if file is not None:
            turn(file, self.position + self.at, self.bit)

    @property
    def _file(self) -> Path | None:
        """The file with the damaged batch. A power failure may restore the name that a cleaned segment had before its
        swap.
        """
        for path in (self.path, self.path.with_name(self.path.name + SWAP_SUFFIX)):
            if path.exists() and path.read_bytes()[self.position :].startswith(self.content):
                return path
        return None


def flip_a_bit(where: TopicPartition, folder: Path, random: Random, turn: Turn) -> Flip | None:
    """Flips a bit of a random intact batch, if there is one. Skips a folder in which a cleaner was working."""
    paths = sorted(path for path in folder.iterdir() if path.name.endswith(LOG_SUFFIX) and path.stat().st_size)
    if not paths or any(path.suffix in (".swap", ".cleaned") for path in folder.iterdir()):
        return None
    path = random.choice(paths)
    data = path.read_bytes()
    batches = _whole_batches(data)
    if not batches:
        return None
    index = random.randrange(len(batches))
    position, size = batches[index]
    header = read_batch_header(data, position)
    base_offset = header.base_offset
    first = _PAYLOAD_BYTES if header.has_producer_id else _UNCOVERED_BYTES
    candidates = [byte for byte in range(first, size) if byte not in _PRODUCER_FIELDS]
    if not candidates:  # A cleaner has emptied the batch.
        return None
    at = random.choice(candidates)
    bit = random.randrange(8)
    cut_at = read_batch_header(data, batches[index - 1][0]).next_offset if index else int(path.stem)
    turn(path, position + at, bit)
    content = path.read_bytes()[position : position + size]
    return Flip(where, path, position, base_offset, cut_at, content, at, bit)


def _whole_batches(data: bytes) -> list[tuple[int, int]]:
    """Returns position and size of the intact batches, up to the first damaged one."""
    found = []
    position = 0
    while position < len(data):
        try:
            header = read_batch_header(data, position)
        except KafkaError:
            break
        if position + header.size_bytes > len(data) or not batch_crc_is_valid(data, position, header):
            break
        found.append((position, header.size_bytes))
        position += header.size_bytes
    return found
