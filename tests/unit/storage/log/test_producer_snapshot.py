"""Tests producer snapshots, which have Kafka's format."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.core.log.producer_entry import ProducerSnapshotEntry
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId
from klamm.storage.log.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    write_snapshot,
)

ENTRIES = [
    ProducerSnapshotEntry(ProducerId(1), ProducerEpoch(0), 9, Offset(99), 4, Millis(1000), -1, Offset(-1)),
    ProducerSnapshotEntry(ProducerId(2**40), ProducerEpoch(3), -1, Offset(-1), 0, Millis(-1), 5, Offset(80)),
]


def test_a_snapshot_reads_back(tmp_path: Path) -> None:
    """A snapshot with producers and one without can be read back."""
    path = tmp_path / "00000000000000000100.snapshot"
    for entries in (ENTRIES, []):
        write_snapshot(path, entries, sync=False)
        assert read_snapshot(path) == entries


def test_the_layout_is_kafkas() -> None:
    """A snapshot is laid out as in ProducerSnapshot.json, version 1: version, CRC of the rest, count, entries of 46
    bytes."""
    content = encode_snapshot(ENTRIES)
    assert content[:2] == b"\x00\x01"
    assert content[6:10] == b"\x00\x00\x00\x02"
    assert len(content) == 10 + 2 * 46
    assert content[10:56].hex() == (
        "000000000000000100000000000900000000000000630000000400000000000003e8ffffffffffffffffffffffff"
    )


@pytest.mark.parametrize("at", range(0, 102, 7))
def test_a_flipped_byte_is_noticed(at: int) -> None:
    """A flipped bit in any part of a snapshot raises CorruptSnapshot."""
    content = bytearray(encode_snapshot(ENTRIES))
    content[at] ^= 0x40
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(content))


@pytest.mark.parametrize("length", [0, 1, 9, 10, 55, 101])
def test_a_cut_file_is_noticed(length: int) -> None:
    """A truncated or empty snapshot raises CorruptSnapshot."""
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(encode_snapshot(ENTRIES)[:length])
