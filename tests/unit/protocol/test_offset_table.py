"""Tests the table of each key's latest offset: it agrees with a dict and uses a limited amount of memory."""

from __future__ import annotations

import random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.scanner_loops import compiled_loops, each_loops

from klamm.protocol.record_scanner import RecordSpans, scan_records
from klamm.protocol.records import UnstampedRecord, encode_batch

SECRET = bytes(range(16))

keys = st.none() | st.sampled_from([b"", b"a", b"b", b"\x00", bytes(7), bytes(8), bytes(9), b"k" * 100])
values = st.sampled_from([None, b"", b"value"])
batches = st.lists(st.lists(st.tuples(keys, values), min_size=1, max_size=70), max_size=6)


def spans_of(records: list[tuple[bytes | None, bytes | None]]) -> RecordSpans:
    """Returns the spans of a batch with these keys and values."""
    unstamped: list[UnstampedRecord] = [(0, key, value, ()) for key, value in records]
    return scan_records(encode_batch(unstamped))


@each_loops
@settings(max_examples=examples(150), deadline=None)
@given(written=batches, start=st.integers(0, 60), data=st.data())
def test_keeps_what_a_dict_would_keep(
    loops: ModuleType,
    written: list[list[tuple[bytes | None, bytes | None]]],
    start: int,
    data: st.DataObject,
) -> None:
    """The table holds each key's latest offset from `start` on. It keeps all records from `end` on; before `end` it
    keeps the latest record of each key and no record without a key."""
    table = loops.OffsetTable(1 << 16, SECRET)
    latest: dict[bytes, int] = {}
    base_offset = 0
    for records in written:
        spans = spans_of(records)
        assert table.put_records(spans, base_offset, start_offset=start, max_entries=1000) == len(records)
        for offset, (key, _) in enumerate(records, base_offset):
            if key is not None and offset >= start:
                latest[key] = offset
        base_offset += len(records)
    assert len(table) == len(latest)
    for key in (b"", b"a", b"never"):
        assert table.latest_offset(key) == latest.get(key, -1)

    end = data.draw(st.integers(0, base_offset))
    keep_tombstones = data.draw(st.booleans())
    base_offset = 0
    for records in written:
        keep = bytearray(b"\x07" * len(records))
        expected = [
            offset >= end
            or (key is not None and (value is not None or keep_tombstones) and offset >= latest.get(key, -1))
            for offset, (key, value) in enumerate(records, base_offset)
        ]
        without_key = sum(key is None and offset < end for offset, (key, _) in enumerate(records, base_offset))
        marked = table.mark_kept(spans_of(records), base_offset, keep, end_offset=end, keep_tombstones=keep_tombstones)
        assert list(keep) == expected
        assert marked == (sum(expected), without_key)
        base_offset += len(records)


@each_loops
def test_holds_as_many_keys_as_its_memory(loops: ModuleType) -> None:
    """Every slot can be used, and `put_records` returns the index of the record whose key has no free slot."""
    table = loops.OffsetTable(loops.OffsetTable.BYTES_PER_ENTRY * 100 + 1, SECRET)
    assert table.slots == 100
    spans = spans_of([(b"%d" % number, b"") for number in range(150)])
    assert table.put_records(spans, 0, start_offset=0, max_entries=1000) == 100
    assert len(table) == 100
    assert [table.latest_offset(b"%d" % number) for number in range(101)] == [*range(100), -1]
    # As in Kafka, a full table takes no more records, not even of a key that it already has.
    assert table.put_records(spans_of([(None, b""), (b"5", b"")]), 500, start_offset=0, max_entries=1000) == 1
    assert table.latest_offset(b"5") == 5
    keep = bytearray(150)
    assert table.mark_kept(spans, 0, keep, end_offset=1000, keep_tombstones=True) == (150, 0)


@each_loops
@pytest.mark.parametrize("limit", [0, 1, 31, 32, 33, 64])
def test_stops_at_the_limit(loops: ModuleType, limit: int) -> None:
    """`put_records` stores neither the record whose key exceeds the limit nor any later record."""
    table = loops.OffsetTable(1 << 16, SECRET)
    spans = spans_of([(None, b""), *((b"%d" % number, b"") for number in range(100))])
    assert table.put_records(spans, 0, start_offset=0, max_entries=limit) == limit + 1
    assert len(table) == limit
    assert table.latest_offset(b"%d" % limit) == -1


@each_loops
def test_grows_and_forgets_nothing(loops: ModuleType) -> None:
    """The table grows from a few pages to its full size without losing an offset, while keys repeat."""
    choose = random.Random(1)
    table = loops.OffsetTable(loops.OffsetTable.BYTES_PER_ENTRY * 60_000, SECRET)
    empty_bytes = table.memory_bytes
    latest: dict[bytes, int] = {}
    offset = 0
    while len(latest) < 50_000:
        records: list[tuple[bytes | None, bytes | None]] = [
            (b"%d" % choose.randrange(80_000), b"") for _ in range(1000)
        ]
        assert table.put_records(spans_of(records), offset, start_offset=0, max_entries=60_000) == 1000
        for number, (key, _) in enumerate(records, offset):
            assert key is not None
            latest[key] = number
        offset += 1000
    assert len(table) == len(latest)
    assert all(table.latest_offset(key) == last for key, last in latest.items())
    assert empty_bytes < table.memory_bytes <= loops.OffsetTable.BYTES_PER_ENTRY * 60_000
    table.clear()
    assert (len(table), table.memory_bytes, table.latest_offset(b"1")) == (0, empty_bytes, -1)
    assert table.put_records(spans_of([(b"1", b"")]), 9, start_offset=0, max_entries=60_000) == 1
    assert table.latest_offset(b"1") == 9


@each_loops
def test_needs_memory_and_a_secret(loops: ModuleType) -> None:
    """A table without room for an entry, or with a secret of a wrong length, is refused."""
    with pytest.raises(ValueError, match="no entry"):
        loops.OffsetTable(loops.OffsetTable.BYTES_PER_ENTRY - 1, SECRET)
    with pytest.raises(ValueError, match="16 bytes"):
        loops.OffsetTable(1 << 16, b"short")


# --- the hash -------------------------------------------------------------------------------------------------------

_MASK = 0xFFFF_FFFF_FFFF_FFFF


def _siphash128(secret: bytes, data: bytes) -> bytes:
    """Returns SipHash-2-4 with 128 bits, as its paper and reference implementation describe it."""
    k0, k1 = (int.from_bytes(secret[start : start + 8], "little") for start in (0, 8))
    v = [0x736F6D6570736575 ^ k0, 0x646F72616E646F6D ^ k1 ^ 0xEE, 0x6C7967656E657261 ^ k0, 0x7465646279746573 ^ k1]

    def rounds(count: int) -> None:
        def add_rotate(a: int, b: int, bits: int) -> None:
            v[a] = v[a] + v[b] & _MASK
            v[b] = (v[b] << bits | v[b] >> 64 - bits) & _MASK ^ v[a]

        def rotate32(a: int) -> None:
            v[a] = (v[a] << 32 | v[a] >> 32) & _MASK

        for _ in range(count):
            add_rotate(0, 1, 13)
            rotate32(0)
            add_rotate(2, 3, 16)
            add_rotate(0, 3, 21)
            add_rotate(2, 1, 17)
            rotate32(2)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return low.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


def test_hash_has_the_published_vectors() -> None:
    """The hash gives the first vectors of the reference implementation for 128 bits."""
    loops = compiled_loops()
    assert loops.siphash128(SECRET, b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    assert loops.siphash128(SECRET, b"\x00").hex() == "da87c1d86b99af44347659119b22fc45"


@settings(max_examples=examples(200), deadline=None)
@given(secret=st.binary(min_size=16, max_size=16), data=st.binary(max_size=300))
def test_hash_is_siphash(secret: bytes, data: bytes) -> None:
    """The compiled hash is SipHash for data of any length and any secret."""
    assert compiled_loops().siphash128(secret, data) == _siphash128(secret, data)
