"""Avro schemas: parsed with their references, and checked. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from fastavro.repository.base import AbstractSchemaRepository, SchemaRepositoryError
from fastavro.schema import load_schema

from klamm.pipelines.decoders.decoder import DecoderError

__all__ = ["parse_avro", "refuse_unsafe", "without_defaults"]

_ROOT: Final = "the schema"
_MARKERS: Final = ("__fastavro_parsed", "__named_schemas")


class _Repository(AbstractSchemaRepository):
    """The schemas that a schema may refer to, by their full names."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def load(self, name: str) -> Any:
        """Returns the schema of this name (as a method of fastavro's repositories)."""
        try:
            return self._schemas[name]
        except KeyError:
            raise SchemaRepositoryError(f"{name} is not defined") from None


def parse_avro(text: str, references: Mapping[str, str] | None = None, *, is_writer: bool = False) -> Any:
    """Returns the schema as JSON, with full names and with the schemas that it refers to in place.

    A writer's schema comes without the defaults of its fields: they mean nothing to a reader, and old versions of
    Java's Avro took defaults of any type. Raises `DecoderError` if it is no Avro schema.
    """
    try:
        schemas = {name: json.loads(each) for name, each in {**(references or {}), _ROOT: text}.items()}
        if is_writer:
            schemas = {name: without_defaults(schema) for name, schema in schemas.items()}
        parsed = load_schema(_ROOT, repo=_Repository(schemas))
    except Exception as error:  # fastavro raises errors of many kinds for what is no schema
        raise DecoderError(f"not an Avro schema: {type(error).__name__}: {error}") from None
    return _without_markers(parsed)


def refuse_unsafe(schema: Any) -> None:
    """Raises `DecoderError` for schemas by which a few bytes could keep a worker busy for hours, or crash it.

    An array whose elements have no bytes can claim to be of any length. A recursive schema can claim any depth, and
    fastavro's reader is compiled: too great a depth ends the process.
    """
    _Sizes().of(schema)


class _Sizes:
    """The walk that finds out whether a type takes at least one byte."""

    def __init__(self) -> None:
        self._named: dict[str, bool | None] = {}

    def of(self, schema: Any) -> bool:
        """Returns whether each value of the type takes at least one byte."""
        if isinstance(schema, list):
            for branch in schema:
                self.of(branch)
            return True
        if isinstance(schema, str):
            return self._reference(schema)
        kind = schema["type"]
        if kind in {"record", "error"}:
            return self._record(schema)
        if kind == "fixed":
            self._named[schema["name"]] = schema["size"] > 0
            return bool(schema["size"])
        if kind == "enum":
            self._named[schema["name"]] = True
            return True
        if kind == "array" and not self.of(schema["items"]):
            raise DecoderError("an array of elements that take no bytes could claim to be of any length")
        if kind == "map":
            self.of(schema["values"])
        return True if kind in {"array", "map"} else self.of(kind)

    def _reference(self, name: str) -> bool:
        if name not in self._named:
            return name != "null"
        size = self._named[name]
        if size is None:
            raise DecoderError(f"the record {name} contains itself, but Spark has no recursive types")
        return size

    def _record(self, schema: Mapping[str, Any]) -> bool:
        self._named[schema["name"]] = None
        sizes = [self.of(field["type"]) for field in schema["fields"]]
        self._named[schema["name"]] = any(sizes)
        return any(sizes)


def without_defaults(schema: Any) -> Any:
    """Returns the schema without what means nothing to the reader of its records: defaults of fields, descriptions."""

    def bare(node: Mapping[str, Any]) -> dict[str, Any]:
        copy = {key: value for key, value in node.items() if key != "doc"}
        if "fields" in copy:
            copy["fields"] = [
                {key: value for key, value in field.items() if key not in {"default", "doc"}}
                for field in copy["fields"]
            ]
        return copy

    return _mapped(schema, bare)


def _without_markers(schema: Any) -> Any:
    return _mapped(schema, lambda node: {key: value for key, value in node.items() if key not in _MARKERS})


def _mapped(schema: Any, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """Returns a copy in which `change` has been applied to each object that is a schema."""
    if isinstance(schema, list):
        return [_mapped(branch, change) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    copy = change(schema)
    for key in ("type", "items", "values"):
        if key in copy:
            copy[key] = _mapped(copy[key], change)
    if isinstance(copy.get("fields"), list):
        copy["fields"] = [{**field, "type": _mapped(field["type"], change)} for field in copy["fields"]]
    return copy
