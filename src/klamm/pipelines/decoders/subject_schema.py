"""The schema of a decoder: as its declaration gives it, as an earlier start stored it, or as a registry has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from klamm.pipelines.decoders.decoder import Decoder, DecoderError, DecodingPlace
from klamm.pipelines.decoders.schema_registry import (
    Registry,
    RegistryError,
    RegistrySchema,
    SchemaLookup,
    UnknownSchema,
)

__all__ = ["declared_text", "pinned_schema"]


def declared_text(schema: str | Path | Mapping[str, Any] | list[Any], endings: tuple[str, ...], decoder: str) -> str:
    """Returns the text of a schema: of a file, of a dict, or the text itself. Raises `DecoderError`."""
    if isinstance(schema, str) and not schema.strip().startswith(("{", "[", '"')) and schema.endswith(endings):
        schema = Path(schema)
    if isinstance(schema, Path):
        try:
            return schema.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DecoderError(f"{decoder}({str(schema)!r}): the schema can't be read: {error}") from None
    return schema if isinstance(schema, str) else json.dumps(schema)


def pinned_schema(
    decoder: Decoder,
    place: DecodingPlace,
    registry: Registry,
    subject: str | None,
    version: int | None,
    *,
    kind: str,
    needs_descriptor: bool = False,
) -> tuple[RegistrySchema, dict[str, Any]]:
    """Returns the reader schema from the registry, and where it comes from as JSON to be stored.

    What an earlier start stored counts, if it fits the declaration: a newer version in the registry changes nothing
    until the declaration names it. Raises `DecoderError`.
    """
    subject = subject or _subject_of(decoder, place)
    stored = place.stored
    is_known = stored.get("decoder") == decoder.name and stored.get("subject") == subject and "text" in stored
    if is_known and version in {None, stored["version"]}:
        return RegistrySchema(
            stored["text"], stored["kind"], stored["references"], stored["id"], subject, stored["version"]
        ), _origin_from(stored)
    found = _ask(decoder, registry, subject, version, needs_descriptor=needs_descriptor)
    if found.kind != kind:
        raise DecoderError(
            f"{decoder.name}(): {subject} in the registry has a schema of the kind {found.kind}, not {kind}"
        )
    return found, {
        "subject": subject,
        "version": found.version,
        "id": found.schema_id,
        "kind": found.kind,
        "text": found.text,
        "references": dict(found.references),
    }


def _ask(
    decoder: Decoder, registry: Registry, subject: str, version: int | None, *, needs_descriptor: bool
) -> RegistrySchema:
    with closing(SchemaLookup(registry)) as schemas:
        try:
            found = schemas.latest(subject, version)
            # A registry returns a Protobuf schema as it was registered, as text or as a file descriptor.
            if needs_descriptor and not found.is_descriptor:
                with suppress(RegistryError):  # not each registry can make a descriptor of a text
                    found = schemas.latest(subject, version, serialized=True)
        except UnknownSchema as error:
            raise DecoderError(
                f"{decoder.name}(): {error} in the registry {registry.url}. Name another with subject=, or give a "
                "schema"
            ) from None
        return found


def _origin_from(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {name: stored[name] for name in ("subject", "version", "id", "kind", "text", "references")}


def _subject_of(decoder: Decoder, place: DecodingPlace) -> str:
    if len(place.topics) != 1:
        raise DecoderError(
            f"{decoder.name}(): the source has {len(place.topics)} topics, so the subject of the reader schema must be "
            f'named: {decoder.name}(registry=…, subject="orders-value")'
        )
    return f"{place.topics[0]}-value"
