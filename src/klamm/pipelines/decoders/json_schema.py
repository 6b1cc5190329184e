"""`json_schema(…)`: JSON objects that a JSON Schema describes, plain or with a schema id of a registry in front.

Spark's `from_json` makes the columns, as in `json(…)`. Python only validates, and only if asked to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from klamm.pipelines.decoders.declared_schema import as_nullable
from klamm.pipelines.decoders.decoder import BAD_REASON, DECODED, Decoder, DecoderError, DecodingPlace, PinnedDecoder
from klamm.pipelines.decoders.json_schema_types import json_schema_columns
from klamm.pipelines.decoders.json_text import decode_json
from klamm.pipelines.decoders.python_decoding import cut_reason
from klamm.pipelines.decoders.schema_registry import Registry
from klamm.pipelines.decoders.subject_schema import declared_text, pinned_schema
from klamm.pipelines.decoders.wire_format import HEADER_BYTES

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from referencing import Registry as Resources

__all__ = ["JsonSchemaDecoder", "json_schema"]

_OPTIONS: Final = {"timeZone": "UTC"}


def json_schema(
    schema: str | Path | Mapping[str, Any] | None = None,
    *,
    registry: Registry | None = None,
    subject: str | None = None,
    version: int | None = None,
    validate: bool = True,
) -> JsonSchemaDecoder:
    """Returns the decoder for JSON objects with a JSON Schema.

    `schema` is a file (a `Path`, or a string that ends with `.json`), the schema's text, or a dict. With a `registry`,
    each value begins with a schema id (Confluent's wire format). Without a schema it is the newest one of `subject`
    (default: the topic with `-value`), or its `version`, at the first start. Columns follow from the schema's types.
    With `validate`, a record that breaks another rule of the schema is bad, too; this costs Python for each record.
    Raises `DecoderError`.
    """
    if schema is None and registry is None:
        raise DecoderError("json_schema() needs a schema, or a registry that has one")
    if schema is not None and (subject is not None or version is not None):
        raise DecoderError("json_schema(): subject and version choose a schema of the registry; one is given already")
    text = None if schema is None else declared_text(schema, (".json",), "json_schema")
    return JsonSchemaDecoder(text, registry, subject, version, validate)


@dataclass(frozen=True)
class JsonSchemaDecoder(Decoder):
    """The decoder for JSON objects with a JSON Schema."""

    name: ClassVar[str] = "json_schema"
    declared: str | None
    registry: Registry | None = None
    subject: str | None = None
    version: int | None = None
    validate: bool = True

    def pin(self, place: DecodingPlace) -> PinnedDecoder:
        """Returns the decoder with the declared schema, the stored one, or the subject's newest."""
        is_framed = self.registry is not None
        if self.declared is not None:
            return _PinnedJsonSchema(self.declared, {}, {}, is_framed=is_framed, validate=self.validate)
        assert self.registry is not None
        found, origin = pinned_schema(self, place, self.registry, self.subject, self.version, kind="JSON")
        return _PinnedJsonSchema(found.text, found.references, origin, is_framed=is_framed, validate=self.validate)


class _PinnedJsonSchema(PinnedDecoder):
    def __init__(
        self,
        text: str,
        references: Mapping[str, str],
        origin: Mapping[str, Any],
        *,
        is_framed: bool,
        validate: bool,
    ) -> None:
        try:
            schema = json.loads(text)
            others = {name: json.loads(other) for name, other in references.items()}
        except ValueError as error:
            raise DecoderError(f"json_schema(): the schema is not JSON: {error}") from None
        if validate:
            _check(schema, others)
        self._declared, notes = json_schema_columns(schema, others)
        self.schema = as_nullable(self._declared)
        self.stored: dict[str, Any] = {"decoder": "json_schema", "text": text, **origin, "validate": validate}
        version = (f"the schema is version {origin['version']} of {origin['subject']}",) if origin else ()
        self.notes = (*version, *notes)
        self._is_framed = is_framed
        self._schema = (schema, others)
        self._validate = validate

    def _decode(self, records: DataFrame) -> DataFrame:
        value = F.col("value")
        if self._is_framed:
            begin = F.conv(F.hex(F.substring(value, 1, 1)), 16, 10)
            too_short = F.concat(F.lit("the value has "), F.length(value), F.lit(" bytes, too few for a schema id"))
            wrong = F.concat(F.lit("the value begins with the byte "), begin, F.lit(", not with 0 and a schema id"))
            refusal = F.when(F.length(value) < HEADER_BYTES, too_short).when(begin != "0", wrong)
            payload = F.expr(f"substring(value, {HEADER_BYTES + 1})")
            decoded = decode_json(records, payload, self._declared, _OPTIONS, refusal)
        else:
            decoded = decode_json(records, value, self._declared, _OPTIONS)
        if not self._validate:
            return decoded
        skip = HEADER_BYTES if self._is_framed else 0
        checked = decoded.mapInArrow(partial(_validate_batches, *self._schema, skip), decoded.schema)
        # What breaks the schema is found in Python; the columns of such a record are null, as those of any bad one.
        return checked.withColumn(DECODED, F.when(F.col(BAD_REASON).isNull(), F.col(DECODED)))


def _check(schema: Any, others: Mapping[str, Any]) -> None:
    """Raises `DecoderError` if the schema is none, or refers to what is not there."""
    validator = _validator(schema, others)
    from klamm.pipelines.decoders.json_schema_references import refuse_missing_references

    refuse_missing_references(schema, validator.ID_OF(validator.META_SCHEMA), _resources(others))


def _resources(others: Mapping[str, Any]) -> Resources[Any]:
    from referencing import Registry as Resources
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012

    return Resources().with_resources(
        (name, Resource.from_contents(other, default_specification=DRAFT202012)) for name, other in others.items()
    )


def _validator(schema: Any, others: Mapping[str, Any]) -> Validator:
    """Returns the validator of the schema. Raises `DecoderError` if the schema is none."""
    try:
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema.validators import validator_for
    except ImportError as error:
        raise DecoderError(
            f"json_schema() needs jsonschema ({error}). Run: pip install '.[registry]' in a clone of klamm, or say "
            "validate=False"
        ) from error
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise DecoderError(f"json_schema(): not a JSON Schema: {error.json_path}: {error.message}") from None
    validator: Validator = kind(schema, registry=_resources(others))
    return validator


def _validate_batches(
    schema: Any, others: Mapping[str, Any], skip: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Gives the records that break the schema a reason."""
    from jsonschema.exceptions import best_match

    validator = _validator(schema, others)

    def reason_of(value: bytes | None, reason: str | None) -> str | None:
        if value is None or reason is not None:
            return reason
        try:
            parsed = json.loads(value[skip:])
        except (ValueError, RecursionError) as unreadable:  # Spark takes single quotes, for example
            return cut_reason(f"the value is not JSON: {unreadable}")
        try:
            error = best_match(validator.iter_errors(parsed))
        except (ArithmeticError, ValueError, RecursionError) as failure:  # 1e999 and a `multipleOf`, for example
            return cut_reason(f"the value can't be compared with the schema: {failure}")
        return None if error is None else cut_reason(f"the schema is broken at {error.json_path}: {error.message}")

    for batch in batches:
        values, reasons = batch.column("value").to_pylist(), batch.column(BAD_REASON).to_pylist()
        checked = pa.array([reason_of(*pair) for pair in zip(values, reasons, strict=True)], pa.string())
        at = batch.schema.get_field_index(BAD_REASON)
        columns = [*batch.columns[:at], checked, *batch.columns[at + 1 :]]
        yield pa.RecordBatch.from_arrays(columns, batch.schema.names)
