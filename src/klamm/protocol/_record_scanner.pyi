# The interface of the compiled module: the same as its counterpart in Python, which documents it; and columns, whose
# counterpart is in klamm.spark.source.tasks.numpy_columns.
from collections.abc import Callable
from typing import TypeAlias

from klamm.protocol._record_scanner_py import OffsetTable as OffsetTable
from klamm.protocol._record_scanner_py import copy_kept as copy_kept
from klamm.protocol._record_scanner_py import count_kept as count_kept
from klamm.protocol._record_scanner_py import find_batches as find_batches
from klamm.protocol._record_scanner_py import find_records as find_records
from klamm.protocol._record_scanner_py import scan_body as scan_body
from klamm.protocol._row_encoder_py import RowEncoder as RowEncoder
from klamm.protocol._row_encoder_py import rows_by_partition as rows_by_partition

RECORDS_AT_ONCE: int

def siphash128(secret: bytes, data: bytes | bytearray | memoryview) -> bytes: ...

class Memory:
    """Read-only bytes with Python's buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...

BytesColumn: TypeAlias = tuple[int, Memory | None, Memory, Memory]
"""Number of nulls, one bit for each row (None without nulls), 32-bit bounds (one more than rows), the bytes."""

HeaderLists: TypeAlias = tuple[int, Memory | None, Memory, BytesColumn, BytesColumn]
"""As `BytesColumn` for each row's list of headers, then the keys (UTF-8) and the values of all headers."""

class ColumnFiller:
    """Collects the records of many batches into columns in Arrow's memory layout."""

    rows: int
    """The number of records in the table so far."""
    is_full: bool
    """Whether the table has no room for the next record or batch."""

    def __init__(self, max_rows: int, max_bytes: int, *, include_headers: bool = False) -> None: ...
    def set_range(self, start_offset: int, end_offset: int) -> None: ...
    def add_plain_batches(
        self,
        records: bytes | bytearray | memoryview,
        position: int,
        crc32c: Callable[[memoryview, int], int] | None,
        with_transactions: bool,
    ) -> int: ...
    def add_records(
        self,
        body: bytes | bytearray | memoryview,
        position: int,
        count: int,
        *,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> tuple[int, int]: ...
    def take(self) -> tuple[int, BytesColumn, BytesColumn, Memory, Memory, Memory, HeaderLists | None]:
        """Returns rows, keys, values, offsets, timestamps in microseconds, timestamp types (32 bits), headers."""
