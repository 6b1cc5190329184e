"""Decoding in Python: a function from bytes to a value, applied to Arrow batches in Spark's Python workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from klamm.errors import KlammError
from klamm.pipelines.decoders.arrow_types import arrow_type
from klamm.pipelines.decoders.decoder import BAD_REASON, DECODED

__all__ = ["BadRecord", "ValueDecoder", "ValuePlan", "cut_reason", "decode_in_python", "decode_values"]

ValueDecoder = Callable[[bytes], Any]
"""Returns a value's columns, in a form that Arrow takes. Raises `BadRecord`; other errors fail the task."""

_LONGEST_REASON: Final = 500


class BadRecord(KlammError):
    """A record that can't be decoded; the text says why."""


class ValuePlan(ABC):
    """A decoder as it travels to the workers: small, and picklable."""

    @abstractmethod
    def open(self) -> ValueDecoder:
        """Returns the function that decodes; called once in each task."""


def decode_in_python(records: DataFrame, schema: StructType, plan: ValuePlan) -> DataFrame:
    """Adds the columns `decoded` and `bad_reason` to the rows, by `plan`; both are null where `value` is null."""
    added = [StructField(DECODED, schema), StructField(BAD_REASON, StringType())]
    columns = StructType([*records.schema.fields, *added])
    return records.mapInArrow(partial(_decode_batches, plan, arrow_type(schema)), columns)


def _decode_batches(
    plan: ValuePlan, data_type: pa.DataType, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    decode = plan.open()
    for batch in batches:
        decoded, reasons = decode_values(decode, data_type, batch.column("value").to_pylist())
        columns = [*batch.columns, decoded, pa.array(reasons, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, DECODED, BAD_REASON])


def decode_values(
    decode: ValueDecoder, data_type: pa.DataType, values: Iterable[bytes | None]
) -> tuple[pa.Array, list[str | None]]:
    """Returns the decoded values, null for bad ones, and the reasons, null for good ones."""
    decoded: list[Any] = []
    reasons: list[str | None] = []
    for value in values:
        result, reason = None, None
        if value is not None:
            try:
                result = decode(value)
            except BadRecord as error:
                reason = cut_reason(str(error))
        decoded.append(result)
        reasons.append(reason)
    try:
        return pa.array(decoded, data_type), reasons
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        _refuse_unfit(decoded, reasons, data_type)
        return pa.array(decoded, data_type), reasons


def _refuse_unfit(decoded: list[Any], reasons: list[str | None], data_type: pa.DataType) -> None:
    """Gives each value that Arrow can't hold a reason."""
    for at, value in enumerate(decoded):
        try:
            pa.array([value], data_type)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            decoded[at] = None
            reasons[at] = cut_reason(f"a value does not fit its column: {error}")


def cut_reason(reason: str) -> str:
    """Returns the reason, shortened to what fits a header."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
