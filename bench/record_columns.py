"""Measures how many records a second become Arrow columns, with the installed form of the code.

`python -m bench.record_columns`; with KLAMM_PURE_PYTHON=1 in the environment, the equivalent in numpy. It measures
processor time, best of five, so that other processes matter little. It goes from the bytes of a Fetch response to
tables for Spark, and checks CRCs; records have 100 bytes.
"""

from __future__ import annotations

import argparse
from random import Random
from time import thread_time
from typing import Final

from klamm.client.fetch import FetchedBatches
from klamm.protocol.compression import Compression
from klamm.protocol.record_scanner import IS_COMPILED
from klamm.protocol.records import encode_batch
from klamm.protocol.types import Offset
from klamm.spark.source.tasks.tables import TableBuilder

__all__ = ["main"]

_ROUNDS: Final = 5
_PER_BATCH: Final = (1, 150, 5000)


def _log(codec: Compression, per_batch: int, count: int) -> bytes:
    choose = Random(1)
    return b"".join(
        encode_batch(
            [
                (
                    1_700_000_000_000 + place,
                    b"key-%012d" % choose.randrange(1_000_000),
                    choose.randbytes(42).hex().encode(),
                    (),
                )
                for place in range(per_batch)
            ],
            base_offset=base_offset,
            compression=codec,
        )
        for base_offset in range(0, count, per_batch)
    )


def _seconds(fetched: FetchedBatches, count: int) -> float:
    start = thread_time()
    tables = TableBuilder(0, count, include_headers=False, check_crcs=True)
    rows = sum(table.rows for table in (*tables.add(fetched), *tables.finish()))
    taken = thread_time() - start
    assert rows == count
    return taken


def main() -> None:
    """Prints a table of the rates."""
    parser = argparse.ArgumentParser(prog="python -m bench.record_columns", description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    asked = parser.parse_args().records
    print(f"{'compiled' if IS_COMPILED else 'numpy'}; millions of records a second, by records in a batch")
    print(f"{'':>8}" + "".join(f"{per_batch:>10}" for per_batch in _PER_BATCH))
    for codec in Compression:
        rates = []
        for per_batch in _PER_BATCH:
            count = asked // (10 if per_batch == 1 else 1) // per_batch * per_batch
            fetched = FetchedBatches(memoryview(_log(codec, per_batch, count)), (), Offset(count))
            rates.append(count / min(_seconds(fetched, count) for _ in range(_ROUNDS)) / 1e6)
        print(f"{codec.name.lower():>8}" + "".join(f"{rate:>10.2f}" for rate in rates))


if __name__ == "__main__":
    main()
