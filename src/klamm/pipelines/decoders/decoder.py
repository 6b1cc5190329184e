"""The contract of decoders.

A decoder turns the binary column `value` of a source's rows into two columns:

- `decoded`, a struct of the typed columns, null for a bad record;
- `bad_reason`, a string that says why the record is bad; null for a good record.

A decoder is declared before a Spark session exists. `Decoder.pin` fixes its schema when the flow starts; the result
decodes. The same pinned decoder decodes the same bytes to the same result in each query, run and session time zone:
the query of a flow and the query of its dead letters agree on each record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from klamm.errors import KlammError

__all__ = ["BAD_REASON", "DECODED", "Decoder", "DecoderError", "DecodingPlace", "PinnedDecoder", "Tombstones"]

DECODED: Final = "decoded"
"""The column with the struct of typed columns."""
BAD_REASON: Final = "bad_reason"
"""The column with the reason why a record is bad."""

Tombstones = Literal["bad", "drop", "keep"]
"""The treatment of a record whose value is null: it is bad, it is dropped, or it is kept with null in `decoded`."""

_TOMBSTONE: Final = "the value is null (a tombstone)"


class DecoderError(KlammError):
    """A declaration of a decoder that can't work, or a schema that can't be had; its text says what to do."""


@dataclass(frozen=True)
class DecodingPlace:
    """The topics that a decoder reads. A decoder without a declared schema infers it there at the first start."""

    topics: Sequence[str] = ()
    """The names of the topics; with a pattern, those that exist now."""
    sample: Callable[[int], Sequence[bytes]] = lambda records: ()
    """Returns the values of about this many of the topics' newest records, without tombstones."""
    stored: Mapping[str, Any] = field(default_factory=dict)
    """`PinnedDecoder.stored` of an earlier start; empty at the first start."""


class Decoder(ABC):
    """A decoder as declared. Instances are values: equal declarations decode alike."""

    name: ClassVar[str]
    """The function that declares it: `json`."""

    @abstractmethod
    def pin(self, place: DecodingPlace) -> PinnedDecoder:
        """Returns the decoder with a fixed schema. Needs a Spark session.

        Takes the schema from the declaration, else from `place.stored`, else from the place (a sample, a registry).
        Raises `DecoderError` if the schema is wrong or can't be had.
        """


class PinnedDecoder(ABC):
    """A decoder whose schema is fixed."""

    schema: StructType
    """The type of `decoded`."""
    stored: Mapping[str, Any]
    """The schema and settings that fix the decoding, as JSON.

    The caller stores them next to the checkpoint, and gives them to `pin` at each later start.
    """
    notes: Sequence[str] = ()
    """Sentences for the user about the schema, such as conflicts in the sample that it was inferred from."""

    def decode(self, records: DataFrame, tombstones: Tombstones = "bad") -> DataFrame:
        """Returns the source's rows with the columns `decoded` and `bad_reason`.

        `records` has the binary column `value`; all its columns are kept. The rows may have changed their order.
        Exactly one of the two columns is null in each row; both are null in a tombstone that is kept.
        """
        if tombstones not in get_args(Tombstones):
            raise DecoderError(f"tombstones={tombstones!r}: say 'bad', 'drop' or 'keep'")
        if tombstones == "drop":
            records = records.filter(F.col("value").isNotNull())
        decoded = self._decode(records)
        if tombstones != "bad":
            return decoded
        reason = F.when(F.col("value").isNull(), F.lit(_TOMBSTONE)).otherwise(F.col(BAD_REASON))
        return decoded.withColumn(BAD_REASON, reason)

    @abstractmethod
    def _decode(self, records: DataFrame) -> DataFrame:
        """Adds `decoded` and `bad_reason`; both are null where `value` is null."""


def evaluated_once(expression: Column) -> Column:
    """Returns an expression that Spark does not copy into filters above it.

    Spark moves a filter below the projection whose column the filter uses, and then evaluates the column's expression
    twice. It does not move filters below an expression that it takes to be nondeterministic. The result is the same
    for the same input: the condition always holds.
    """
    return F.when(F.spark_partition_id() >= 0, expression)
