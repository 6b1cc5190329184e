"""`protobuf(…)`: Protobuf messages, plain or with a schema id of a registry in front."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame

from klamm.pipelines.decoders.decoder import Decoder, DecoderError, DecodingPlace, PinnedDecoder
from klamm.pipelines.decoders.python_decoding import BadRecord, ValueDecoder, ValuePlan, decode_in_python
from klamm.pipelines.decoders.schema_registry import Registry, UnknownSchema, schemas_of
from klamm.pipelines.decoders.subject_schema import pinned_schema
from klamm.pipelines.decoders.wire_format import split_header, split_message_indexes

__all__ = ["ProtobufDecoder", "protobuf"]


def protobuf(
    message: Any = None,
    *,
    descriptors: str | Path | bytes | None = None,
    registry: Registry | None = None,
    subject: str | None = None,
    version: int | None = None,
) -> ProtobufDecoder:
    """Returns the decoder for Protobuf messages.

    `message` is a class that protoc generated, or a message's name in `descriptors`: a descriptor set (a file or its
    bytes), as `protoc --include_imports --descriptor_set_out` writes it. With a `registry`, each value begins with the
    id of its schema and the place of its message (Confluent's wire format). Without a class or descriptors the message
    comes from the newest schema of `subject` (default: the topic with `-value`), or its `version`, at the first start.
    Raises `DecoderError`.
    """
    files = None
    name = message if isinstance(message, str) or message is None else None
    if message is not None and name is None:
        if not hasattr(message, "DESCRIPTOR"):
            raise DecoderError(f"protobuf({message!r}): give a class that protoc generated, or the name of a message")
        _require_protobuf()
        from klamm.pipelines.decoders.protobuf_files import from_class

        found = from_class(message)
        files, name = found.files.SerializeToString(deterministic=True), found.message
    elif descriptors is not None:
        files = descriptors if isinstance(descriptors, bytes) else _read(Path(descriptors))
    elif registry is None:
        raise DecoderError("protobuf() needs a generated class, descriptors, or a registry: protobuf(Order)")
    if files is not None and (subject is not None or version is not None):
        raise DecoderError("protobuf(): subject and version choose a schema of the registry; one is given already")
    return ProtobufDecoder(files, name, registry, subject, version)


@dataclass(frozen=True)
class ProtobufDecoder(Decoder):
    """The decoder for Protobuf messages."""

    name: ClassVar[str] = "protobuf"
    files: bytes | None
    """A descriptor set."""
    message: str | None
    registry: Registry | None = None
    subject: str | None = None
    version: int | None = None

    def pin(self, place: DecodingPlace) -> PinnedDecoder:
        """Returns the decoder with the declared message, the stored one, or the subject's newest."""
        _require_protobuf()
        from klamm.pipelines.decoders.protobuf_files import from_registry, from_set

        if self.files is not None:
            return _PinnedProtobuf(from_set(self.files, self.message, "protobuf(descriptors=…)"), self.registry, {})
        assert self.registry is not None
        found, origin = pinned_schema(
            self, place, self.registry, self.subject, self.version, kind="PROTOBUF", needs_descriptor=True
        )
        source = f"version {found.version} of {found.subject}"
        file = from_registry(found.text, found.references, self.message, source)
        return _PinnedProtobuf(file, self.registry, origin)


class _PinnedProtobuf(PinnedDecoder):
    def __init__(self, file: Any, registry: Registry | None, origin: Mapping[str, Any]) -> None:
        from klamm.pipelines.decoders.protobuf_files import find_message
        from klamm.pipelines.decoders.protobuf_types import message_columns

        self.schema, _ = message_columns(find_message(file))
        files = file.files.SerializeToString(deterministic=True)
        encoded = base64.b64encode(files).decode("ascii")
        self.stored: dict[str, Any] = {"decoder": "protobuf", **origin, "files": encoded, "message": file.message}
        if origin:
            self.notes = (f"the message is {file.message} of version {origin['version']} of {origin['subject']}",)
        self._plan = _ProtobufPlan(files, file.message, registry)

    def _decode(self, records: DataFrame) -> DataFrame:
        return decode_in_python(records, self.schema, self._plan)


@dataclass(frozen=True)
class _ProtobufPlan(ValuePlan):
    """The message of the reader, and the registry in which the messages of the writers are."""

    files: bytes
    message: str
    registry: Registry | None

    def open(self) -> ValueDecoder:
        """Returns the function that decodes one value."""
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        from klamm.pipelines.decoders.protobuf_files import MessageFile, find_message
        from klamm.pipelines.decoders.protobuf_types import has_required_fields, message_columns

        descriptor = find_message(MessageFile(FileDescriptorSet.FromString(self.files), self.message))
        message_class = GetMessageClass(descriptor)
        _, convert = message_columns(descriptor)
        has_required = has_required_fields(descriptor)
        name = self.message

        def read(payload: bytes) -> Any:
            message = message_class()
            try:
                message.ParseFromString(payload)
            except (DecodeError, UnicodeDecodeError) as error:
                raise BadRecord(f"the value is no Protobuf message {name}: {error}") from None
            if has_required and not message.IsInitialized():
                missing = ", ".join(message.FindInitializationErrors())
                raise BadRecord(f"the message {name} lacks required fields: {missing}")
            try:
                return convert(message)
            except UnicodeDecodeError as error:  # proto2 does not check strings before they are read
                raise BadRecord(f"the value is no Protobuf message {name}: {error}") from None

        place = self.registry
        if place is None:
            return read

        @cache
        def refusal(schema_id: int, indexes: tuple[int, ...]) -> str | None:
            return _refusal(place, schema_id, indexes, name)

        def framed(value: bytes) -> Any:
            schema_id, rest = split_header(value)
            indexes, payload = split_message_indexes(rest)
            if reason := refusal(schema_id, indexes):
                raise BadRecord(reason)
            return read(payload)

        return framed


def _refusal(place: Registry, schema_id: int, indexes: tuple[int, ...], expected: str) -> str | None:
    """Returns why a record of this schema and place can't be the expected message; None if it is."""
    from klamm.pipelines.decoders.protobuf_files import message_name, message_names

    try:
        found = schemas_of(place).by_id(schema_id)
    except UnknownSchema as error:
        return str(error)
    if found.kind != "PROTOBUF":
        return f"schema id {schema_id} is of the kind {found.kind}, not PROTOBUF"
    name = message_name(message_names(found.text), indexes)
    if name is None:
        return f"schema id {schema_id} has no message at the place {list(indexes)}"
    return None if name == expected else f"the record is a message {name} (schema id {schema_id}), not {expected}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DecoderError(f"protobuf(descriptors={str(path)!r}): the file can't be read: {error}") from None


def _require_protobuf() -> None:
    try:
        import google.protobuf  # noqa: F401
    except ImportError as error:
        raise DecoderError(f"protobuf() needs protobuf ({error}). Run: pip install '.[registry]' in a clone") from error
