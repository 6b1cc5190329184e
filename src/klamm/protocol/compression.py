"""The compression codecs of record batches: compresses as Kafka's Java clients do, decompresses within a size limit.

The format of each codec (`org.apache.kafka.common.compress` of Apache Kafka 4.3):

    gzip    a gzip stream (RFC 1952)
    snappy  the framing of xerial's snappy-java, blocks of 32 KiB; librdkafka writes one raw snappy block instead, and
            both are read
    lz4     an LZ4 frame of independent blocks of 64 KiB without checksums: Java refuses frames whose blocks depend
            on each other
    zstd    zstandard frames

The size of the content that compressed bytes declare is never trusted: data is decompressed into a buffer of at most
`max_bytes`, whose memory is used only as output is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from mmap import mmap
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import cramjam

from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = [
    "COMPRESSION_BY_ID",
    "DEFAULT_MAX_BYTES",
    "Compression",
    "Compressor",
    "OpenedData",
    "compress",
    "decompress",
    "lz4_frame",
    "open_up_to",
]


class Compression(IntEnum):
    """Codec of a batch's records: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


Compressor: TypeAlias = "Callable[[Compression, bytes | bytearray | memoryview, int | None], bytes]"
"""A function with the contract of `compress`."""

COMPRESSION_BY_ID: Final = {int(codec): codec for codec in Compression}

DEFAULT_MAX_BYTES: Final = 256 * 1024 * 1024
"""Limit for the decompressed records of one batch.

Kafka sets no limit. Producers fill a batch up to a number of bytes before compression (16 KiB in Java, 1 MB in
librdkafka, by default). So this is far above what they write, and far below what a hostile batch of 1 MB can declare.
"""

_GZIP_DEFAULT_LEVEL: Final = 6
_ZSTD_DEFAULT_LEVEL: Final = 3

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_XERIAL_LENGTH: Final = Struct(">i")
# The first four bytes of the magic, where a block's length is expected: streams may follow one another.
_XERIAL_MAGIC_AS_LENGTH: Final = _XERIAL_LENGTH.unpack_from(_XERIAL_MAGIC)[0]
# A copy element of three bytes makes 64 bytes, so no valid block exceeds this ratio.
_SNAPPY_MAXIMUM_RATIO: Final = 22
# Each block takes some microseconds, even without content. Writers use blocks of 32 KiB, except at the end of a stream.
_MOST_SMALL_BLOCKS: Final = 16
_SMALL_BLOCK_BYTES: Final = 1024

# Magic; version 1, blocks independent; blocks of up to 64 KiB; second byte of the xxHash32 of the two before.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_LENGTH: Final = Struct("<I")
_LZ4_STORED: Final = 0x8000_0000
_LZ4_END: Final = b"\x00\x00\x00\x00"

# Follows the usable part of the buffer. A codec with more output than that overwrites it.
_SENTINEL: Final = b"klamm's sentinel"
# A larger buffer is an anonymous mmap, whose pages take memory only once output is written to them.
_LARGEST_BYTEARRAY: Final = 1024 * 1024

# Small inputs are decompressed into a small buffer first, which is usually enough and cheaper than an mmap.
_SMALL_INPUT_BYTES: Final = 32 * 1024
_SMALL_INPUT_RATIO: Final = 8


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compresses the data as Kafka's Java clients do.

    `level` is the level of gzip or zstd; None is Kafka's default. lz4 has only the fast compressor, Kafka's default.
    """
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_DEFAULT_LEVEL if level is None else level))
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        return lz4_frame(data, _compress_lz4_block)
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_DEFAULT_LEVEL if level is None else level))


def decompress(codec: Compression, data: bytes | bytearray | memoryview, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Decompresses the data, to at most `max_bytes`.

    Raises `KafkaError` (CORRUPT_MESSAGE) if the data is not in the codec's format, or if the output would be larger.
    """
    opened = open_up_to(codec, data, max_bytes)
    if not opened.is_whole or len(opened.data) > max_bytes:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{codec.name.lower()} data opens to more than {max_bytes} bytes")
    return bytes(opened.data)


_DECOMPRESS_INTO: Final[dict[Compression, Callable[[Any, Any], int]]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


class OpenedData(NamedTuple):
    """Decompressed data, or only its beginning."""

    data: memoryview
    is_whole: bool
    max_bytes: int = 0
    """The limit up to which a beginning was opened. Snappy, which is opened by the block, may stay below it."""


def open_up_to(codec: Compression, data: bytes | bytearray | memoryview, max_bytes: int) -> OpenedData:
    """Decompresses the data; if the output is larger than `max_bytes`, only its beginning.

    Uncompressed data is not copied, and is always whole. A single raw block of snappy gives all or nothing. The
    interpreter's lock is released meanwhile. Raises `KafkaError` (CORRUPT_MESSAGE) if the data is not in the codec's
    format.
    """
    if codec is Compression.NONE:
        return OpenedData(memoryview(data), True)
    try:
        if codec is Compression.SNAPPY:
            return _open_snappy(memoryview(data), max_bytes)
        return _open_into(_DECOMPRESS_INTO[codec], data, max_bytes)
    except cramjam.DecompressionError as failure:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{codec.name.lower()} data can't be opened: {failure}") from None


def _open_into(
    decompress_into: Callable[[Any, Any], int], data: bytes | bytearray | memoryview, max_bytes: int
) -> OpenedData:
    if len(data) <= _SMALL_INPUT_BYTES and len(data) * _SMALL_INPUT_RATIO < max_bytes:
        opened = _fill(decompress_into, data, len(data) * _SMALL_INPUT_RATIO)
        if opened.is_whole:
            return opened
    return _fill(decompress_into, data, max_bytes)


def _fill(
    decompress_into: Callable[[Any, Any], int], data: bytes | bytearray | memoryview, max_bytes: int
) -> OpenedData:
    room = max_bytes + len(_SENTINEL)
    buffer: bytearray | mmap = bytearray(room) if room <= _LARGEST_BYTEARRAY else mmap(-1, room)
    buffer[max_bytes:room] = _SENTINEL
    try:
        size = decompress_into(data, buffer)
    except cramjam.DecompressionError:
        # Damaged data and a buffer that is too small raise the same error, but only the latter overwrites the sentinel.
        if buffer[max_bytes:room] == _SENTINEL:
            raise
        size = room
    return OpenedData(memoryview(buffer)[: min(size, max_bytes)], size <= max_bytes, max_bytes)


def _open_snappy(data: memoryview, max_bytes: int) -> OpenedData:
    parts: list[memoryview] = []
    room_bytes = max_bytes
    most_blocks = _MOST_SMALL_BLOCKS + max_bytes // _SMALL_BLOCK_BYTES
    for block in _snappy_blocks(data):
        if len(parts) == most_blocks or _claimed_bytes(block) > room_bytes:
            return OpenedData(memoryview(b"".join(parts)), False, max_bytes)
        parts.append(memoryview(cramjam.snappy.decompress_raw(block)))
        room_bytes -= len(parts[-1])
    return OpenedData(parts[0] if len(parts) == 1 else memoryview(b"".join(parts)), True)


def _compress_snappy(data: bytes | bytearray | memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_XERIAL_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield view
        return
    position = len(_XERIAL_HEADER)
    end = len(view)
    while position < end:
        if end - position < _XERIAL_LENGTH.size:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "snappy data ends within the length of a block")
        (length,) = _XERIAL_LENGTH.unpack_from(view, position)
        if length == _XERIAL_MAGIC_AS_LENGTH:
            position += len(_XERIAL_HEADER)
            continue
        position += _XERIAL_LENGTH.size
        if not 0 <= length <= end - position:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"snappy block of {length} bytes in {end - position} bytes")
        yield view[position : position + length]
        position += length


def _claimed_bytes(block: memoryview) -> int:
    claimed_bytes = cramjam.snappy.decompress_raw_len(block)
    if claimed_bytes > len(block) * _SNAPPY_MAXIMUM_RATIO:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"snappy block of {len(block)} bytes claims to hold {claimed_bytes}"
        )
    return claimed_bytes


def lz4_frame(data: bytes | bytearray | memoryview, compress_block: Callable[[memoryview], bytes]) -> bytes:
    """Returns the data as an LZ4 frame that Java reads; `compress_block` compresses up to 64 KiB into a raw block."""
    # cramjam's own frames have blocks that depend on each other, or unwanted checksums.
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = compress_block(plain)
        if len(block) >= len(plain):
            parts += (_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), bytes(plain))
        else:
            parts += (_LZ4_LENGTH.pack(len(block)), block)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _compress_lz4_block(plain: memoryview) -> bytes:
    return bytes(cramjam.lz4.compress_block(plain, store_size=False))
