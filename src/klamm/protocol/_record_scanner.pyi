# What the compiled module offers: the same as its twin, described there.
from klamm.protocol._record_scanner_py import OffsetTable as OffsetTable
from klamm.protocol._record_scanner_py import copy_kept as copy_kept
from klamm.protocol._record_scanner_py import count_kept as count_kept
from klamm.protocol._record_scanner_py import scan_body as scan_body

def siphash128(secret: bytes, data: bytes | bytearray | memoryview) -> bytes: ...
