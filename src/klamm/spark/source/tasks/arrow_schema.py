"""The columns of the source as Arrow types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from klamm.spark.source.tasks.columns import HEADERS_TYPE

__all__ = ["arrow_schema"]

_COLUMNS: Final = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """Returns the schema of record batches. Spark's workers require that each record batch has exactly this schema."""
    return pa.schema([*_COLUMNS, pa.field("headers", HEADERS_TYPE)] if include_headers else _COLUMNS)
