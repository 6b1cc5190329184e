"""The codecs that may stand in a record batch, written as Kafka's Java clients write them, and opened within a bound.

What each codec's bytes are (`org.apache.kafka.common.compress` of Apache Kafka 4.3):

    gzip    a gzip stream (RFC 1952)
    snappy  the framing of xerial's snappy-java, blocks of 32 KiB; librdkafka writes one raw snappy block instead, and
            both are read
    lz4     an LZ4 frame of independent blocks of 64 KiB without checksums: Java refuses frames whose blocks depend
            on each other
    zstd    zstandard frames

The sizes that compressed bytes claim for their content are never believed: what is opened goes into a buffer of at most
`max_bytes`, and memory is touched only as output is written.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from mmap import mmap
from struct import Struct
from typing import Any, Final

import cramjam

from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = ["COMPRESSION_BY_ID", "Compression", "DEFAULT_MAX_BYTES", "compress", "decompress"]


class Compression(IntEnum):
    """Codec of a batch's records: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


COMPRESSION_BY_ID: Final = {int(codec): codec for codec in Compression}

DEFAULT_MAX_BYTES: Final = 256 * 1024 * 1024
"""What the records of one batch may open to.

Kafka sets no bound. Producers fill a batch up to a number of bytes before compression (16 KiB in Java, 1 MB in
librdkafka, by default), so this is far above what they write and far below what a batch of 1 MB can be made to claim.
"""

_GZIP_DEFAULT_LEVEL: Final = 6
_ZSTD_DEFAULT_LEVEL: Final = 3

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_XERIAL_LENGTH: Final = Struct(">i")
# The first four bytes of the magic, where a block's length is expected: streams may follow one another.
_XERIAL_MAGIC_AS_LENGTH: Final = _XERIAL_LENGTH.unpack_from(_XERIAL_MAGIC)[0]
# A copy of 64 bytes takes three: no valid block opens to more than this.
_SNAPPY_MAXIMUM_RATIO: Final = 22

# Magic; version 1, blocks independent; blocks of up to 64 KiB; second byte of the xxHash32 of the two before.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_LENGTH: Final = Struct("<I")
_LZ4_STORED: Final = 0x8000_0000
_LZ4_END: Final = b"\x00\x00\x00\x00"

# Small inputs are opened into a small buffer first, which most of them fit: cheaper than mapping pages.
_SMALL_INPUT_BYTES: Final = 32 * 1024
_SMALL_INPUT_RATIO: Final = 8


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """The data as Kafka's Java clients would write it.

    `level` is that of gzip or zstd, None the one that Kafka takes by default. lz4 has the fast compressor only: Kafka's
    default.
    """
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_DEFAULT_LEVEL if level is None else level))
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        return _compress_lz4(data)
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_DEFAULT_LEVEL if level is None else level))


def decompress(codec: Compression, data: bytes | bytearray | memoryview, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """What the data opens to, at most `max_bytes`.

    Raises `KafkaError` (CORRUPT_MESSAGE) if the data isn't what the codec writes or would open to more.
    """
    if codec is Compression.NONE:
        if len(data) > max_bytes:
            raise _too_large(codec)
        return bytes(data)
    try:
        if codec is Compression.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        return _decompress_bounded(_DECOMPRESS_INTO[codec], data, max_bytes)
    except cramjam.DecompressionError as failure:
        raise KafkaError(
            ErrorCode.corrupt_message,
            f"{codec.name.lower()} data can't be opened to at most {max_bytes} bytes: {failure}",
        ) from None


_DECOMPRESS_INTO: Final[dict[Compression, Callable[[Any, Any], int]]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def _decompress_bounded(
    decompress_into: Callable[[Any, Any], int], data: bytes | bytearray | memoryview, max_bytes: int
) -> bytes:
    if len(data) <= _SMALL_INPUT_BYTES:
        buffer = bytearray(min(len(data) * _SMALL_INPUT_RATIO, max_bytes))
        try:
            size = decompress_into(data, buffer)
            del buffer[size:]
            return bytes(buffer)
        except cramjam.DecompressionError:
            # Too small a buffer and damaged data look alike; the second attempt tells.
            if len(buffer) == max_bytes:
                raise
    # Anonymous pages cost nothing until output reaches them, so that the bound can be mapped at once.
    with mmap(-1, max(max_bytes, 1)) as pages:
        size = decompress_into(data, pages)
        if size > max_bytes:
            raise cramjam.DecompressionError("too large")
        return pages[:size]


def _compress_snappy(data: bytes | bytearray | memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_XERIAL_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes)
    parts = []
    remaining_bytes = max_bytes
    position = len(_XERIAL_HEADER)
    end = len(view)
    while position < end:
        if end - position < _XERIAL_LENGTH.size:
            raise KafkaError(ErrorCode.corrupt_message, "snappy data ends within the length of a block")
        (length,) = _XERIAL_LENGTH.unpack_from(view, position)
        if length == _XERIAL_MAGIC_AS_LENGTH:
            position += len(_XERIAL_HEADER)
            continue
        position += _XERIAL_LENGTH.size
        if not 0 <= length <= end - position:
            raise KafkaError(ErrorCode.corrupt_message, f"snappy block of {length} bytes in {end - position} bytes")
        block = _decompress_snappy_block(view[position : position + length], remaining_bytes)
        remaining_bytes -= len(block)
        parts.append(block)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    claimed_bytes = cramjam.snappy.decompress_raw_len(block)
    if claimed_bytes > max_bytes:
        raise _too_large(Compression.SNAPPY)
    if claimed_bytes > len(block) * _SNAPPY_MAXIMUM_RATIO:
        raise KafkaError(
            ErrorCode.corrupt_message, f"snappy block of {len(block)} bytes claims to hold {claimed_bytes}"
        )
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_lz4(data: bytes | bytearray | memoryview) -> bytes:
    # cramjam's own frames have blocks that depend on each other, or checksums that nobody asked for.
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) >= len(plain):
            parts += (_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), bytes(plain))
        else:
            parts += (_LZ4_LENGTH.pack(len(block)), block)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _too_large(codec: Compression) -> KafkaError:
    return KafkaError(ErrorCode.corrupt_message, f"{codec.name.lower()} data holds more bytes than may be opened")
