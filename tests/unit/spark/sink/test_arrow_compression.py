"""Tests that the sink's compressor makes what each reader of Kafka's protocol opens."""

from __future__ import annotations

import random

import pytest

from klamm.protocol.compression import Compression, compress, decompress
from klamm.spark.sink.arrow_compression import compress_fast


@pytest.mark.parametrize("codec", [each for each in Compression if each is not Compression.NONE])
@pytest.mark.parametrize("size_bytes", [0, 1, 100, 65_535, 65_536, 65_537, 300_000])
def test_all_codecs(codec: Compression, size_bytes: int) -> None:
    """Data of any size comes back, whether it can be compressed or not."""
    for data in (b"klamm " * (size_bytes // 6) + b"x" * (size_bytes % 6), random.Random(7).randbytes(size_bytes)):
        assert decompress(codec, compress_fast(codec, data)) == data


def test_lz4_has_the_frame_of_java() -> None:
    """Header, independent blocks of 64 KiB and the end mark are those of the core's frames."""
    plain = bytes(100_000)
    ours, cores = compress_fast(Compression.LZ4, plain), compress(Compression.LZ4, plain)

    assert ours[:7] == cores[:7]
    assert ours[-4:] == cores[-4:] == bytes(4)
