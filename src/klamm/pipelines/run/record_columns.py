"""The columns `key`, `value` and `headers` that a flow's rows become in a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.pipelines.declare.sinks import ToTopic
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.flow_frames import RECORD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["record_columns"]

_NESTED: Final = ("struct", "array", "map")


def record_columns(frame: DataFrame, sink: ToTopic, flow: str) -> DataFrame:
    """Returns the frame with the columns that the sink writes. Raises `DeclarationError` for a missing column."""
    from pyspark.sql import functions as F

    for argument, column in (("key", sink.key), ("value", sink.value), ("headers", sink.headers)):
        if column is not None and column not in frame.columns:
            raise DeclarationError(
                f"flow {flow}: to_topic({sink.topic!r}, {argument}={column!r}): its function returns no such column, "
                f"only {', '.join(frame.columns)}"
            )
    columns = []
    if sink.key is not None:
        columns.append(_as_bytes_or_text(frame, sink.key).alias("key"))
    if sink.value is not None:
        columns.append(_as_bytes_or_text(frame, sink.value).alias("value"))
    else:
        rest = [name for name in frame.columns if name not in (sink.key, sink.headers, RECORD)]
        if not rest:
            raise DeclarationError(
                f"flow {flow}: to_topic({sink.topic!r}): its function returns no column for the record's value"
            )
        # A consumer finds every field in every record.
        columns.append(F.to_json(F.struct(*map(_named, rest)), {"ignoreNullFields": "false"}).alias("value"))
    if sink.headers is not None:
        columns.append(_named(sink.headers).alias("headers"))
    return frame.select(*columns)


def _as_bytes_or_text(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F

    kind = frame.schema[name].dataType.typeName()
    if kind in ("string", "binary"):
        return _named(name)
    if kind in _NESTED:
        return F.to_json(_named(name), {"ignoreNullFields": "false"})
    return _named(name).cast("string")


def _named(name: str) -> Column:
    """Returns the column with exactly this name. Spark takes a dot for the field of a struct, except in backticks."""
    from pyspark.sql import functions as F

    return F.col(f"`{name.replace('`', '``')}`")
