"""`raw()`: the bytes of the value as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from klamm.pipelines.decoders.decoder import BAD_REASON, DECODED, Decoder, DecodingPlace, PinnedDecoder

__all__ = ["RawDecoder", "raw"]


def raw() -> RawDecoder:
    """Returns the decoder for bytes: one column `value`, binary. No record is bad except tombstones."""
    return RawDecoder()


@dataclass(frozen=True)
class RawDecoder(Decoder):
    """The decoder for bytes as they are."""

    name: ClassVar[str] = "raw"

    def pin(self, place: DecodingPlace) -> PinnedDecoder:
        """Returns the decoder: its schema is always the same."""
        return _PinnedRaw()


class _PinnedRaw(PinnedDecoder):
    def __init__(self) -> None:
        self.schema = StructType([StructField("value", BinaryType())])
        self.stored = {"decoder": "raw"}

    def _decode(self, records: DataFrame) -> DataFrame:
        value = F.col("value")
        return records.withColumn(DECODED, F.when(value.isNotNull(), F.struct(value.alias("value")))).withColumn(
            BAD_REASON, F.lit(None).cast("string")
        )
