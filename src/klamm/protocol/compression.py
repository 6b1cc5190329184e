"""The codecs that may stand in a record batch."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ["COMPRESSION_BY_ID", "Compression"]


class Compression(IntEnum):
    """Codec of a batch's records: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


COMPRESSION_BY_ID: Final = {int(codec): codec for codec in Compression}
