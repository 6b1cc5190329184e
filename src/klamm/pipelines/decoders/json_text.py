"""`json(…)`: JSON objects, parsed by Spark's `from_json`, with a given schema or one inferred from a sample.

The value V of a record is parsed as `{"w":V,"e":true}`. So bytes after the object (`{"a":1} x`) are an error, which
`from_json` alone ignores; where V ends the outer object itself (`{"a":1}} x`), `e` is missing. A blank value is an
error, too; and the column for corrupt records stands outside the user's columns, whose names can't collide with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from klamm.pipelines.decoders.declared_schema import as_nullable, parse_schema
from klamm.pipelines.decoders.decoder import (
    BAD_REASON,
    DECODED,
    Decoder,
    DecoderError,
    DecodingPlace,
    PinnedDecoder,
    evaluated_once,
)
from klamm.pipelines.decoders.json_inference import infer_schema
from klamm.pipelines.decoders.json_reasons import WRAPPED, json_reason, parse_wrapped

__all__ = ["JsonDecoder", "decode_json", "json"]

_SAMPLE_RECORDS: Final = 1_000
_PARSED: Final = "__klamm_parsed"
_OWN_OPTIONS: Final = {
    "mode": "bad records are found by the decoder",
    "columnnameofcorruptrecord": "bad records are found by the decoder",
}


def json(schema: str | StructType | None = None, **options: str | bool | int) -> JsonDecoder:
    """Returns the decoder for JSON objects.

    `schema` is a string such as `"time timestamp, dest string, arr_delay int"`, or a `StructType`; a field that is NOT
    NULL must be there. Without a schema it is inferred from a sample of the topic at the first start.
    `options` are those of Spark's `from_json`, such as `timestampFormat`; `timeZone` is UTC unless given.
    Raises `DecoderError`.
    """
    for name in options:
        if name.lower() in _OWN_OPTIONS:
            raise DecoderError(f"json({name}=…) is not possible: {_OWN_OPTIONS[name.lower()]}")
    return JsonDecoder(schema, tuple(sorted((name, _text(value)) for name, value in options.items())))


@dataclass(frozen=True)
class JsonDecoder(Decoder):
    """The decoder for JSON objects."""

    name: ClassVar[str] = "json"
    declared: str | StructType | None
    options: tuple[tuple[str, str], ...] = ()

    def pin(self, place: DecodingPlace) -> PinnedDecoder:
        """Returns the decoder with the declared schema, the stored one, or one inferred from a sample."""
        if self.declared is not None:
            return _PinnedJson(parse_schema(self.declared, "json"), dict(self.options), is_inferred=False)
        if place.stored.get("decoder") == self.name and place.stored.get("inferred"):
            return _PinnedJson(StructType.fromJson(place.stored["schema"]), dict(self.options), is_inferred=True)
        inferred = infer_schema(place.sample(_SAMPLE_RECORDS))
        if inferred is None:
            raise DecoderError(
                f"json() without a schema: {', '.join(place.topics) or 'the topic'} has no record with a JSON object "
                'from which a schema could be inferred. Give a schema, json("name string, …"), or start when the '
                "topic has records"
            )
        return _PinnedJson(inferred.schema, dict(self.options), is_inferred=True, notes=inferred.notes)


class _PinnedJson(PinnedDecoder):
    def __init__(
        self, schema: StructType, options: Mapping[str, str], *, is_inferred: bool, notes: tuple[str, ...] = ()
    ) -> None:
        self._declared = schema
        self.schema = as_nullable(schema)
        self.stored: dict[str, Any] = {
            "decoder": "json",
            "schema": schema.jsonValue(),
            "inferred": is_inferred,
            "options": dict(options),
        }
        self.notes = notes
        # The session's time zone must not change what a record means.
        has_zone = any(name.lower() == "timezone" for name in options)
        self._options = {**options, **({} if has_zone else {"timeZone": "UTC"})}

    def _decode(self, records: DataFrame) -> DataFrame:
        return decode_json(records, F.col("value"), self._declared, self._options)


def decode_json(
    records: DataFrame,
    payload: Column,
    schema: StructType,
    options: Mapping[str, str],
    refusal: Column | None = None,
) -> DataFrame:
    """Adds the columns `decoded` and `bad_reason` for the JSON in the binary column `payload`.

    `refusal` is why a value is bad before it is looked at as JSON; null if it is not.
    """
    text = payload.cast("string")
    is_text = payload.isNotNull() & F.is_valid_utf8(text)
    if refusal is not None:
        is_text = is_text & refusal.isNull()
    parsed = F.when(is_text, parse_wrapped(text, as_nullable(schema), options))
    reason = json_reason(payload, F.col(_PARSED), schema, options)
    if refusal is not None:
        reason = F.coalesce(refusal, reason)
    return (
        records.withColumn(_PARSED, evaluated_once(parsed))
        .withColumn(BAD_REASON, evaluated_once(reason))
        .withColumn(DECODED, F.when(F.col(BAD_REASON).isNull(), F.col(_PARSED)[WRAPPED]))
        .drop(_PARSED)
    )


def _text(value: str | bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
