"""`raw()`: bytes as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_all_bytes_are_good_and_a_tombstone_is_bad(spark: SparkSession) -> None:
    """Any bytes become the column `value`, unchanged; a null value is bad unless it is kept."""
    from klamm.pipelines.decoders.decoder import DecodingPlace
    from klamm.pipelines.decoders.raw import raw

    records = spark.createDataFrame([(0, b"\xff\x00"), (1, b""), (2, None)], "n int, value binary")
    pinned = raw().pin(DecodingPlace())
    rows = sorted(pinned.decode(records).collect(), key=lambda row: int(row.n))
    assert [row.decoded and bytes(row.decoded.value) for row in rows] == [b"\xff\x00", b"", None]
    assert [row.bad_reason for row in rows] == [None, None, "the value is null (a tombstone)"]
    assert pinned.decode(records, "keep").filter("bad_reason IS NOT NULL").count() == 0
    assert pinned.decode(records, "drop").count() == 2
