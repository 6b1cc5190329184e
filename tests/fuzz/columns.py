"""Record batches as columns: both forms of the filler, which must agree with each other and with the reader."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from tests.fuzz.batches import READER
from tests.fuzz.guard import Target
from tests.support.scanner_loops import LOOPS

from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import decode_batch

__all__ = ["COLUMNS"]

_ROWS: Final = 50
_BYTES: Final = 1 << 16
_END: Final = 2**62
_CODEC_OR_CONTROL: Final = 0x27


def _fillers() -> list[Any]:
    # Only this target needs pyarrow, a dependency of the Spark source.
    from klamm.spark.source.tasks.columns import CompiledColumnFiller
    from klamm.spark.source.tasks.numpy_columns import NumpyColumnFiller

    forms: list[Any] = [NumpyColumnFiller, CompiledColumnFiller][: len(LOOPS)]
    return [form(_ROWS, _BYTES, include_headers=True) for form in forms]


def _rows(filler: Any, data: bytes) -> Any:
    """Returns the records of the plain batches at the start and their end position, or an error code."""
    filler.set_range(-_END, _END)
    records = memoryview(data)
    rows: list[Any] = []
    position = reached = 0
    try:
        while True:
            position = filler.add_plain_batches(records, reached, check_crcs=False, with_transactions=True)
            table = filler.take()
            rows += zip(
                table.offsets.to_pylist(),
                table.keys.to_pylist(),
                table.values.to_pylist(),
                [[tuple(h.values()) for h in headers or ()] for headers in table.headers.to_pylist()],
                strict=True,
            )
            if position == reached:
                return rows, position
            reached = position
    except KafkaError as error:
        return error.code


def _read_columns(data: bytes) -> None:
    outcomes = [_rows(filler, data) for filler in _fillers()]
    assert all(outcome == outcomes[0] for outcome in outcomes[1:]), outcomes
    if isinstance(outcomes[0], tuple):
        rows, end = outcomes[0]
        expected = [
            (record.offset, record.key, record.value, list(record.headers))
            # Offsets rise in a log, so the filler stops at the end of the range.
            for position, header in takewhile(lambda batch: batch[1].base_offset < _END, iterate_batches(data[:end]))
            if header.last_offset >= -_END
            for record in decode_batch(data, position)
            if -_END <= record.offset < _END
        ]
        assert rows == expected, f"{rows} is not {expected}"


def _seeds() -> Iterator[bytes]:
    for batch in READER.seeds():
        yield batch
        plain = bytearray(batch)
        plain[22] &= ~_CODEC_OR_CONTROL & 0xFF
        yield bytes(plain)


COLUMNS: Final = Target("columns", _read_columns, _seeds, 12 << 20, 1000)
