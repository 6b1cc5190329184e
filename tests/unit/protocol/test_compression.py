"""Tests compression codecs: their formats are those of Kafka's clients, and decompression has a size limit."""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from klamm.protocol.compression import Compression, compress, decompress, open_up_to
from klamm.protocol.errors import ErrorCode, KafkaError

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
each_codec = pytest.mark.parametrize("codec", CODECS)
# Sizes around the blocks of snappy and lz4, and one that exceeds the small buffer of the first attempt.
SIZES = [0, 1, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 1_000_000]


def noise(size: int) -> bytes:
    """Returns bytes that no codec makes smaller."""
    state, out = 1, bytearray()
    while len(out) < size:
        state = state * 6364136223846793005 + 1442695040888963407 & 0xFFFF_FFFF_FFFF_FFFF
        out += (state >> 24).to_bytes(5, "big")
    return bytes(out[:size])


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", SIZES)
def test_round_trip(codec: Compression, size: int) -> None:
    """Compressed data decompresses to the same bytes, also at exactly the size limit, whether it grew or shrank."""
    for data in (bytes(size), noise(size)):
        closed = compress(codec, memoryview(data))
        assert decompress(codec, closed) == data
        assert decompress(codec, bytearray(closed), max_bytes=size) == data


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", SIZES[1:])
def test_one_byte_beyond_the_bound_is_refused(codec: Compression, size: int) -> None:
    """Data one byte above the limit is refused, whether it compresses well or not."""
    for data in (bytes(size), noise(size)):
        with pytest.raises(KafkaError) as refused:
            decompress(codec, compress(codec, data), max_bytes=size - 1)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@each_codec
def test_bomb_is_refused(codec: Compression) -> None:
    """Data that would decompress to far more than the limit is refused."""
    bomb = compress(codec, bytes(20_000_000))
    with pytest.raises(KafkaError):
        decompress(codec, bomb, max_bytes=1_000_000)


@pytest.mark.parametrize("level", [1, 9])
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_level_is_the_codecs_own(codec: Compression, level: int) -> None:
    """Data that was compressed at any level decompresses to the same bytes."""
    data = bytes(range(256)) * 500
    assert decompress(codec, compress(codec, data, level)) == data


def test_snappy_is_framed_as_java_frames_it() -> None:
    """Snappy data has Java's framing: magic, version 1, compatible version 1, then blocks of 32 KiB with a length."""
    closed = compress(Compression.SNAPPY, noise(40_000))
    assert closed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (length,) = struct.unpack_from(">i", closed, 16)
    assert len(bytes(cramjam.snappy.decompress_raw(closed[20 : 20 + length]))) == 32 * 1024


def test_raw_snappy_is_read() -> None:
    """A raw snappy block without framing is read, because librdkafka writes such blocks."""
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"records" * 100))) == b"records" * 100


def test_snappy_streams_that_follow_one_another_are_read() -> None:
    """Consecutive snappy streams are read, as in Java, which accepts a new header where a block could begin."""
    closed = compress(Compression.SNAPPY, b"first") + compress(Compression.SNAPPY, b"second")
    assert decompress(Compression.SNAPPY, closed) == b"firstsecond"


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param(b"\xff\xff\xff\xff\x0f\x00", id="raw block that claims 4 GiB"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00", id="cut length"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(8) + b"\x7f\xff\xff\xff" + bytes(9), id="block beyond the data"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(8) + b"\xff\xff\xff\xff" + bytes(9), id="negative block"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00\x00\x05\xff\xff\xff\x7f\x00", id="block that claims"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_snappy_that_lies_is_corrupt(closed: bytes) -> None:
    """Wrong lengths in the snappy framing, or inside a block, raise CORRUPT_MESSAGE."""
    with pytest.raises(KafkaError) as refused:
        decompress(Compression.SNAPPY, closed)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_snappy_bound_counts_all_blocks() -> None:
    """The limit applies to the sum of all snappy blocks, even if each single block is within the limit."""
    closed = compress(Compression.SNAPPY, bytes(100_000))
    with pytest.raises(KafkaError):
        decompress(Compression.SNAPPY, closed, max_bytes=99_999)


def test_snappy_blocks_without_content_are_limited() -> None:
    """Only so many snappy blocks are opened for a limit of bytes: each takes time, also if it holds nothing."""
    nothing = b"\x00\x00\x00\x01\x00"
    few, many = (compress(Compression.SNAPPY, b"x") + nothing * count for count in (250, 300))
    opened = open_up_to(Compression.SNAPPY, few, 256 * 1024)
    assert (bytes(opened.data), opened.is_whole) == (b"x", True)
    opened = open_up_to(Compression.SNAPPY, many, 256 * 1024)
    assert (bytes(opened.data), opened.is_whole) == (b"x", False)
    assert decompress(Compression.SNAPPY, many) == b"x"


def test_lz4_blocks_are_independent() -> None:
    """An lz4 frame has Java's header with independent blocks; Java refuses blocks that depend on each other."""
    closed = compress(Compression.LZ4, bytes(200_000))
    assert closed[:7] == b"\x04\x22\x4d\x18\x60\x40\x82"
    assert closed[-4:] == bytes(4)


def test_lz4_frames_of_other_writers_are_read() -> None:
    """Lz4 frames with dependent blocks, block checksums and content checksums are read."""
    data = bytes(range(256)) * 1000
    assert decompress(Compression.LZ4, bytes(cramjam.lz4.compress(data))) == data


def test_gzip_members_that_follow_one_another_are_read() -> None:
    """A gzip stream with several members is read completely, as by Java's reader."""
    closed = gzip.compress(b"first") + gzip.compress(b"second")
    assert decompress(Compression.GZIP, closed) == b"firstsecond"


@each_codec
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_altered_data_raises_nothing_else(codec: Compression, data: st.DataObject) -> None:
    """Damaged, truncated and random bytes decompress to at most the limit or raise KafkaError, and no other error."""
    closed = bytearray(compress(codec, data.draw(st.binary(max_size=500)) * 3))
    for _ in range(data.draw(st.integers(0, 4))):
        closed[data.draw(st.integers(0, len(closed) - 1))] = data.draw(st.integers(0, 255))
    for view in (memoryview(closed)[: data.draw(st.integers(0, len(closed)))], data.draw(st.binary(max_size=100))):
        with suppress(KafkaError):
            assert len(decompress(codec, view, max_bytes=2_000)) <= 2_000


@each_codec
def test_bound_of_nothing_refuses_everything(codec: Compression) -> None:
    """With a limit of zero bytes, a single byte is refused."""
    with pytest.raises(KafkaError):
        decompress(codec, compress(codec, b"x"), max_bytes=0)
