"""The headers of a dead letter: why the record is bad, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["dead_letter_columns", "originals"]

_PREFIX: Final = "klamm."
_ADDED: Final = ("reason", "topic", "partition", "offset", "timestamp", "flow")
"""The headers of a dead letter, behind those of its record."""


def dead_letter_columns(frame: DataFrame, flow: str) -> DataFrame:
    """Returns the original key, value and headers of bad records, with headers that say why and from where."""
    from pyspark.sql import functions as F

    def header(name: str, text: Column) -> Column:
        return F.struct(F.lit(_PREFIX + name).alias("key"), text.cast("string").cast("binary").alias("value"))

    others = {"timestamp": F.unix_millis("timestamp"), "flow": F.lit(flow)}
    added = F.array(*(header(name, others.get(name, F.col(name))) for name in _ADDED))
    none = F.array().cast("array<struct<key:string,value:binary>>")
    return frame.select("key", "value", F.concat(F.coalesce("headers", none), added).alias("headers"))


def _own_headers() -> Column:
    """Returns the headers that the original record had; it may have been a dead letter itself."""
    from pyspark.sql import functions as F

    count = len(_ADDED)
    last = F.transform(F.slice("headers", -count, count), lambda header: header["key"])
    is_letter = (F.size("headers") >= count) & (last == F.array(*(F.lit(_PREFIX + name) for name in _ADDED)))
    before = F.slice("headers", F.lit(1), F.greatest(F.size("headers") - count, F.lit(0)))
    others = F.filter("headers", lambda header: ~header["key"].startswith(_PREFIX))
    return F.when(is_letter, before).otherwise(others)


def originals(letters: DataFrame, flow: str) -> DataFrame:
    """Returns the dead letters of one flow as rows of the original records.

    A record that is no dead letter, as someone else may have written to the topic, belongs to each flow and keeps its
    own place.
    """
    from pyspark.sql import functions as F

    def told(name: str) -> Column:
        # A later header of the same name is the newer one: klamm adds its headers at the end.
        found = F.filter("headers", lambda header: header["key"] == F.lit(_PREFIX + name))
        return F.try_element_at(found, F.lit(-1))["value"].cast("string")

    restored = {
        "topic": F.coalesce(told("topic"), F.col("topic")),
        "partition": F.coalesce(told("partition").try_cast("int"), F.col("partition")),
        "offset": F.coalesce(told("offset").try_cast("bigint"), F.col("offset")),
        "timestamp": F.coalesce(F.timestamp_millis(told("timestamp").try_cast("bigint")), F.col("timestamp")),
        "headers": _own_headers(),
    }
    of_flow = letters.where(F.coalesce(told("flow") == F.lit(flow), F.lit(True)))
    return of_flow.select(
        *(restored[name].alias(name) if name in restored else F.col(name) for name in letters.columns)
    )
