"""Schemas from a Confluent-compatible schema registry, through confluent-kafka's client.

Each process has one client for each registry, which caches schemas by id: an id always means the same schema. A record
whose id the registry does not know is bad. Such an id is remembered for some seconds, and only a few of them are waited
for in a minute, so that a topic with many bad records is read at a useful rate. A registry that can't be asked is no
reason to call a record bad: `RegistryError` fails the task, and Spark repeats it.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from klamm.pipelines.decoders.decoder import DecoderError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient

__all__ = ["Registry", "RegistryError", "RegistrySchema", "SchemaLookup", "UnknownSchema", "registry", "schemas_of"]

_INSTALL: Final = "Run: pip install '.[registry]' in a clone of klamm"
_TIMEOUT_S: Final = 10
_SCHEMA_NOT_FOUND: Final = 40403
_SUBJECT_NOT_FOUND: Final = frozenset({40401, 40402})
_TRIES: Final = 4
_BETWEEN_TRIES_S: Final = 0.5
_UNKNOWN_FOR_S: Final = 10.0
_MOST_UNKNOWN: Final = 10_000
_LARGEST_ID: Final = 2**31 - 1
_WAITS: Final = 5
_WAITS_WITHIN_S: Final = 60.0


class RegistryError(DecoderError):
    """The registry could not be asked, or did not answer as a registry does."""


class UnknownSchema(DecoderError):
    """The registry answered that it does not know the schema."""


@dataclass(frozen=True)
class Registry:
    """Where a schema registry is, and how to connect to it."""

    url: str
    options: tuple[tuple[str, str | int | float | bool], ...] = field(default=(), repr=False)
    """Options of confluent-kafka's `SchemaRegistryClient`; they may hold passwords."""


def registry(url: str, **options: str | int | float | bool) -> Registry:
    """Returns a registry at `url`, or at one of several URLs that are separated by commas.

    `options` are those of confluent-kafka's `SchemaRegistryClient`, with underscores for dots:
    `basic_auth_user_info="name:password"`, `ssl_ca_location="ca.pem"`. Raises `DecoderError` if an option is wrong or
    the extra `registry` is not installed.
    """
    found = Registry(url, tuple(sorted((name.replace("_", "."), value) for name, value in options.items())))
    _client(found).close()
    return found


@dataclass(frozen=True)
class RegistrySchema:
    """A schema and the schemas that it refers to."""

    text: str
    kind: str
    """`AVRO`, `JSON` or `PROTOBUF`."""
    references: Mapping[str, str]
    """The schemas that this one refers to, directly or not, by name; each comes after its own references."""
    schema_id: int
    subject: str = ""
    version: int = 0

    @property
    def is_descriptor(self) -> bool:
        """Whether the text is base64, as a Protobuf file descriptor is, and not the text of a schema."""
        return " " not in self.text.strip()


class SchemaLookup:
    """Asks one registry; remembers what it was told."""

    def __init__(
        self,
        place: Registry,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._place = place
        self._clock = clock
        self._sleep = sleep
        self._client = _client(place)
        # Its cache keeps one form of each schema, so each form has a client.
        self._serialized_client = _client(place)
        self._by_id: dict[tuple[int, bool], RegistrySchema] = {}
        self._unknown: dict[int, float] = {}
        """When each id that the registry does not know may be asked for again."""
        self._waits: deque[float] = deque(maxlen=_WAITS)
        """When the latest ids that stayed unknown were waited for."""

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()
        self._serialized_client.close()

    def latest(self, subject: str, version: int | None = None, *, serialized: bool = False) -> RegistrySchema:
        """Returns the subject's newest schema, or the one of a version. Raises `UnknownSchema` and `RegistryError`.

        With `serialized`, a Protobuf schema comes as a base64 file descriptor instead of as text, if the registry can.
        """
        client, form = self._form(serialized)
        name = f"{subject} has no schema" if version is None else f"{subject} has no version {version}"

        def ask() -> RegisteredSchema:
            if version is None:
                return client.get_latest_version(subject, fmt=form)
            return client.get_version(subject, version, fmt=form)

        return self._complete(self._ask(ask, name, tries=1), serialized=serialized)

    def by_id(self, schema_id: int, *, serialized: bool = False) -> RegistrySchema:
        """Returns the schema of this id. Raises `UnknownSchema` and `RegistryError`.

        A schema that was registered a moment ago may not have reached each node of a registry, so an unknown id is
        asked for again, for some seconds. After five ids that stayed unknown within a minute, the next are asked for
        once.
        """
        known = self._by_id.get((schema_id, serialized))
        if known is None:
            client, form = self._form(serialized)
            name = f"schema id {schema_id} is not in the registry"
            if schema_id > _LARGEST_ID:  # a registry answers such a request as one that it does not understand
                raise UnknownSchema(name)
            now = self._clock()
            if self._unknown.get(schema_id, 0.0) > now:
                raise UnknownSchema(name)
            waits = len(self._waits) < _WAITS or self._waits[0] + _WAITS_WITHIN_S <= now
            try:
                schema = self._ask(lambda: client.get_schema(schema_id, fmt=form), name, tries=_TRIES if waits else 1)
            except UnknownSchema:
                self._note_unknown(schema_id, waited=waits)
                raise
            known = self._with_references(schema, schema_id, serialized=serialized)
            self._by_id[schema_id, serialized] = known
        return known

    def _note_unknown(self, schema_id: int, *, waited: bool) -> None:
        if len(self._unknown) >= _MOST_UNKNOWN:
            self._unknown.clear()
        now = self._clock()
        self._unknown[schema_id] = now + _UNKNOWN_FOR_S
        if waited:
            self._waits.append(now)

    def _form(self, serialized: bool) -> tuple[SchemaRegistryClient, str | None]:
        return (self._serialized_client, "serialized") if serialized else (self._client, None)

    def _complete(self, found: RegisteredSchema, *, serialized: bool) -> RegistrySchema:
        complete = self._with_references(found.schema, found.schema_id or 0, serialized=serialized)
        return RegistrySchema(
            complete.text,
            complete.kind,
            complete.references,
            complete.schema_id,
            found.subject or "",
            found.version or 0,
        )

    def _with_references(self, schema: Schema, schema_id: int, *, serialized: bool) -> RegistrySchema:
        references: dict[str, str] = {}
        self._add_references(schema, references, serialized=serialized)
        return RegistrySchema(schema.schema_str or "", schema.schema_type or "AVRO", references, schema_id)

    def _add_references(self, schema: Schema, found: dict[str, str], *, serialized: bool) -> None:
        client, form = self._form(serialized)
        for reference in schema.references or ():
            name, subject, version = reference.name, reference.subject, reference.version
            if name is None or subject is None or version is None or name in found:
                continue
            missing = f"{subject} has no version {version}, to which a schema refers"
            # A reference may be to a version that was deleted since.
            registered = self._ask(
                lambda: client.get_version(subject, version, True, form),  # noqa: B023  called at once
                missing,
                tries=_TRIES,
            )
            self._add_references(registered.schema, found, serialized=serialized)
            found[name] = registered.schema.schema_str or ""

    def _ask(self, question: Callable[[], Any], unknown: str, *, tries: int) -> Any:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        for left in reversed(range(tries)):
            try:
                return question()
            except SchemaRegistryError as error:
                if error.error_code not in {_SCHEMA_NOT_FOUND, *_SUBJECT_NOT_FOUND}:
                    raise RegistryError(f"schema registry {self._place.url}: {error}") from None
                if not left:
                    raise UnknownSchema(unknown) from None
            except Exception as error:
                raise RegistryError(
                    f"schema registry {self._place.url} can't be asked: {type(error).__name__}: {error}"
                ) from error
            self._sleep(_BETWEEN_TRIES_S)
        raise AssertionError("the last try returns or raises")


def schemas_of(place: Registry) -> SchemaLookup:
    """Returns this process' lookup of the registry's schemas."""
    return _lookup(place, os.getpid())  # a connection does not survive a fork


@cache
def _lookup(place: Registry, _process: int) -> SchemaLookup:
    return SchemaLookup(place)


def _client(place: Registry) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise DecoderError(f"a schema registry needs packages that are missing ({error}). {_INSTALL}") from error
    # Without a timeout of its own the client waits forever.
    conf = {"timeout": _TIMEOUT_S, **dict(place.options), "url": place.url}
    try:
        return SchemaRegistryClient(conf)
    except (ValueError, TypeError, OSError) as error:
        raise DecoderError(f"registry({place.url!r}): {error}") from None
