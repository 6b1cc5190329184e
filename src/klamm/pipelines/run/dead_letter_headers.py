"""The headers of a dead letter: why the record is bad, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["dead_letter_columns", "originals"]

_PREFIX: Final = "klamm."


def dead_letter_columns(frame: DataFrame, flow: str) -> DataFrame:
    """Returns the original key, value and headers of bad records, with headers that say why and from where."""
    from pyspark.sql import functions as F

    def header(name: str, text: Column) -> Column:
        return F.struct(F.lit(_PREFIX + name).alias("key"), text.cast("string").cast("binary").alias("value"))

    added = F.array(
        header("reason", F.col("reason")),
        header("topic", F.col("topic")),
        header("partition", F.col("partition")),
        header("offset", F.col("offset")),
        header("timestamp", F.unix_millis("timestamp")),
        header("flow", F.lit(flow)),
    )
    none = F.array().cast("array<struct<key:string,value:binary>>")
    return frame.select("key", "value", F.concat(F.coalesce("headers", none), added).alias("headers"))


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
        "headers": F.filter("headers", lambda header: ~header["key"].startswith(_PREFIX)),
    }
    of_flow = letters.where(F.coalesce(told("flow") == F.lit(flow), F.lit(True)))
    return of_flow.select(
        *(restored[name].alias(name) if name in restored else F.col(name) for name in letters.columns)
    )
