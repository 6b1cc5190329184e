"""`avro(…)`: Avro records, plain or with a schema id of a registry in front."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pyspark.sql import DataFrame

from klamm.pipelines.decoders.decoder import Decoder, DecoderError, DecodingPlace, PinnedDecoder
from klamm.pipelines.decoders.python_decoding import BadRecord, ValueDecoder, ValuePlan, decode_in_python
from klamm.pipelines.decoders.schema_registry import Registry, UnknownSchema, schemas_of
from klamm.pipelines.decoders.subject_schema import declared_text, pinned_schema
from klamm.pipelines.decoders.wire_format import split_header

if TYPE_CHECKING:
    from klamm.pipelines.decoders.avro_forms import AvroForms

__all__ = ["AvroDecoder", "avro"]


def avro(
    schema: str | Path | Mapping[str, Any] | None = None,
    *,
    registry: Registry | None = None,
    subject: str | None = None,
    version: int | None = None,
) -> AvroDecoder:
    """Returns the decoder for Avro records.

    `schema` is the reader schema: a file (a `Path`, or a string that ends with `.avsc`), the schema's text, or a dict.
    With a `registry`, each value begins with the id of its own schema (Confluent's wire format), and is resolved to the
    reader schema. The reader schema is then by default the newest one of `subject` (default: the topic with `-value`),
    or its `version`, at the first start. Without a registry, the values are plain Avro of this one schema.
    Raises `DecoderError`.
    """
    if schema is None and registry is None:
        raise DecoderError("avro() needs a schema, or a registry that has one: avro(registry=registry(URL))")
    if schema is not None and (subject is not None or version is not None):
        raise DecoderError("avro(): subject and version choose a schema of the registry; a schema is given already")
    text = None if schema is None else declared_text(schema, (".avsc", ".json"), "avro")
    return AvroDecoder(text, registry, subject, version)


@dataclass(frozen=True)
class AvroDecoder(Decoder):
    """The decoder for Avro records."""

    name: ClassVar[str] = "avro"
    declared: str | None
    registry: Registry | None = None
    subject: str | None = None
    version: int | None = None

    def pin(self, place: DecodingPlace) -> PinnedDecoder:
        """Returns the decoder with the declared reader schema, the stored one, or the subject's newest."""
        _require_fastavro()
        from klamm.pipelines.decoders.avro_schemas import parse_avro

        if self.declared is not None:
            return _PinnedAvro(parse_avro(self.declared), self.registry, {})
        assert self.registry is not None
        found, origin = pinned_schema(self, place, self.registry, self.subject, self.version, kind="AVRO")
        return _PinnedAvro(parse_avro(found.text, found.references), self.registry, origin)


class _PinnedAvro(PinnedDecoder):
    def __init__(self, reader: Any, registry: Registry | None, origin: Mapping[str, Any]) -> None:
        from klamm.pipelines.decoders.avro_schemas import refuse_unsafe
        from klamm.pipelines.decoders.avro_types import avro_columns

        self.schema = avro_columns(reader).schema
        refuse_unsafe(reader)
        self.stored: dict[str, Any] = {"decoder": "avro", **origin, "reader": reader}
        if origin:
            self.notes = (f"the reader schema is version {origin['version']} of {origin['subject']}",)
        self._plan = _AvroPlan(json.dumps(reader), registry)

    def _decode(self, records: DataFrame) -> DataFrame:
        return decode_in_python(records, self.schema, self._plan)


@dataclass(frozen=True)
class _AvroPlan(ValuePlan):
    """The reader schema, as JSON, and the registry of the writer schemas."""

    reader: str
    registry: Registry | None

    def open(self) -> ValueDecoder:
        """Returns the function that decodes one value."""
        from fastavro import schemaless_reader
        from fastavro.read import SchemaResolutionError

        from klamm.pipelines.decoders.avro_forms import AvroForms
        from klamm.pipelines.decoders.avro_types import avro_columns

        declared = json.loads(self.reader)
        forms, convert = AvroForms(declared), avro_columns(declared).convert

        def read(payload: bytes, writer: Any, whose: str) -> Any:
            stream = io.BytesIO(payload)
            try:
                value = schemaless_reader(stream, writer, forms.reader)
            except SchemaResolutionError as error:
                raise BadRecord(f"{whose} can't be read with the reader schema: {error}") from None
            except EOFError:
                raise BadRecord(f"the value ends before its Avro record does ({whose})") from None
            except Exception as error:  # the bytes may be anything, and fastavro raises errors of many kinds
                raise BadRecord(f"the value is no Avro of {whose}: {type(error).__name__}: {error}") from None
            if left := len(payload) - stream.tell():
                raise BadRecord(f"the value has {left} bytes after its Avro record ({whose})")
            return value if convert is None else convert(value)

        place = self.registry
        if place is None:
            return lambda value: read(value, forms.reader, "the schema")

        @cache
        def writer_schema(schema_id: int) -> _Writer | str:
            return _writer_schema(place, schema_id, forms)

        def framed(value: bytes) -> Any:
            schema_id, payload = split_header(value)
            writer = writer_schema(schema_id)
            if isinstance(writer, str):
                raise BadRecord(writer)
            if writer.is_bytes:
                payload = _length_prefixed(payload)
            return read(payload, writer.form, f"schema id {schema_id}")

        return framed


class _Writer(NamedTuple):
    """The schema with which records were written."""

    form: Any
    is_bytes: bool
    """Whether the whole schema is `bytes`."""


def _writer_schema(place: Registry, schema_id: int, forms: AvroForms) -> _Writer | str:
    """Returns the schema with which a record was written; a string says why there is none."""
    from klamm.pipelines.decoders.avro_schemas import parse_avro, refuse_unsafe

    try:
        found = schemas_of(place).by_id(schema_id)
    except UnknownSchema as error:
        return str(error)
    if found.kind != "AVRO":
        return f"schema id {schema_id} is of the kind {found.kind}, not AVRO"
    try:
        parsed = parse_avro(found.text, found.references, is_writer=True)
        refuse_unsafe(parsed)
        return _Writer(forms.of_writer(parsed), parsed in ("bytes", {"type": "bytes"}))
    except DecoderError as error:
        return f"schema id {schema_id}: {error}"


def _length_prefixed(payload: bytes) -> bytes:
    """Returns bytes with their length in front: serializers leave it out if the whole schema is `bytes`."""
    length, prefix = len(payload) << 1, bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + payload


def _require_fastavro() -> None:
    try:
        import fastavro  # noqa: F401
    except ImportError as error:
        raise DecoderError(f"avro() needs fastavro ({error}). Run: pip install '.[registry]' in a clone") from error
