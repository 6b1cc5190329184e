"""Measures how many records a second the installed form of the record scanner processes.

`python -m bench.record_scanner`; with KLAMM_PURE_PYTHON=1 in the environment, its form in Python. It measures
processor time, best of three, so that other processes matter little. The records have 100 bytes and a million keys.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from random import Random
from time import thread_time
from typing import Final, NamedTuple

from klamm.protocol.compression import Compression
from klamm.protocol.record_batch import BatchHeader, read_batch_header
from klamm.protocol.record_scanner import IS_COMPILED, OffsetTable, RecordSpans, rewrite_batch, scan_records
from klamm.protocol.records import decode_batch, encode_batch

__all__ = ["main"]

_ROUNDS: Final = 3
_KEYS: Final = 1_000_000
_TABLE_BYTES: Final = 128 << 20
_LOADS: Final = [
    (Compression.NONE, 150),
    (Compression.NONE, 5000),
    (Compression.NONE, 1),
    (Compression.LZ4, 150),
    (Compression.ZSTD, 150),
]


class _Batch(NamedTuple):
    base_offset: int
    data: bytes
    header: BatchHeader
    spans: RecordSpans


def _batches(codec: Compression, per_batch: int, count: int) -> list[_Batch]:
    choose = Random(1)
    batches = []
    for base_offset in range(0, count, per_batch):
        data = encode_batch(
            [
                (
                    1_700_000_000_000 + place,
                    b"key-%012d" % choose.randrange(_KEYS),
                    choose.randbytes(42).hex().encode(),
                    (),
                )
                for place in range(per_batch)
            ],
            base_offset=base_offset,
            compression=codec,
        )
        batches.append(_Batch(base_offset, data, read_batch_header(data), scan_records(data)))
    return batches


def _millions_a_second(step: Callable[[], object], count: int) -> float:
    best = min(_seconds(step) for _ in range(_ROUNDS))
    return count / best / 1e6


def _seconds(step: Callable[[], object]) -> float:
    start = thread_time()
    step()
    return thread_time() - start


def _measure(batches: list[_Batch], count: int) -> dict[str, float]:
    keeps = [bytearray(batch.spans.count) for batch in batches]
    table = OffsetTable(_TABLE_BYTES, os.urandom(16))

    def decode() -> None:
        for batch in batches[:1000]:
            decode_batch(batch.data)

    def scan() -> None:
        for batch in batches:
            scan_records(batch.data)

    def put() -> None:
        table.clear()
        for base_offset, _, _, spans in batches:
            table.put_records(spans, base_offset, start_offset=0, max_entries=table.slots)

    def mark() -> None:
        for (base_offset, _, _, spans), keep in zip(batches, keeps, strict=True):
            table.mark_kept(spans, base_offset, keep, end_offset=count, keep_tombstones=True)

    def rewrite() -> None:
        for (_, data, header, spans), keep in zip(batches, keeps, strict=True):
            rewrite_batch(header, data, spans, keep)

    steps: dict[str, Callable[[], object]] = {
        "decode_batch": decode,
        "scan": scan,
        "put": put,
        "mark": mark,
        "rewrite": rewrite,
    }
    counts = {"decode_batch": sum(batch.spans.count for batch in batches[:1000])}
    return {name: _millions_a_second(step, counts.get(name, count)) for name, step in steps.items()}


def main() -> None:
    """Prints a table of the rates."""
    parser = argparse.ArgumentParser(prog="python -m bench.record_scanner", description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    count = parser.parse_args().records
    print(f"{'compiled' if IS_COMPILED else 'Python'}; millions of records a second")
    for number, (codec, per_batch) in enumerate(_LOADS):
        used = count // (10 if per_batch == 1 else 1) // per_batch * per_batch
        figures = _measure(_batches(codec, per_batch, used), used)
        if not number:
            print(f"{'':>24}" + "".join(f"{name:>14}" for name in figures))
        print(
            f"{codec.name.lower():>8}, {per_batch:>5} a batch" + "".join(f"{rate:>14.2f}" for rate in figures.values())
        )


if __name__ == "__main__":
    main()
