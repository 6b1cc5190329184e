"""The base class of all generated messages, and the table of fields from which their codecs are compiled."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from klamm.errors import KlammError

__all__ = [
    "FieldRow",
    "FieldSpec",
    "Message",
    "NEW",
    "UnsupportedField",
    "UnsupportedVersion",
    "ZERO_UUID",
    "fields_of",
    "struct_class",
]

NEW: Final[Any] = type("New", (), {"__slots__": (), "__repr__": lambda self: "NEW"})()
"""Default of a list or struct argument: each instance gets a new object. None already means null."""

ZERO_UUID: Final = bytes(16)

FieldRow: TypeAlias = tuple[
    str, str, tuple[int, int], tuple[int, int] | None, int | None, tuple[int, int] | None, object, bool
]
"""One row of FIELDS, in the order of FieldSpec. A plain tuple, so that importing a module creates no objects."""


class FieldSpec(NamedTuple):
    """One field of a struct in Kafka's message definition. Version ranges include both ends."""

    name: str
    """The attribute's name."""
    type: str
    """Kafka's type; arrays begin with `[]`, names of structs of the same module with a capital letter. `string16` is a
    string whose length is an int16 even in flexible versions."""
    versions: tuple[int, int]
    nullable: tuple[int, int] | None
    tag: int | None
    tagged: tuple[int, int] | None
    """Versions in which the field is a tagged field, which is encoded only if it differs from its default."""
    default: object
    """`()` for a new list or struct."""
    ignorable: bool
    """Whether a value is dropped silently in versions that lack the field."""

    def present(self, version: int) -> bool:
        """Returns whether this version has the field, tagged or not."""
        return self.versions[0] <= version <= self.versions[1]

    def is_tagged(self, version: int) -> bool:
        """Returns whether the field is a tagged field in this version."""
        return self.tagged is not None and self.present(version) and self.tagged[0] <= version <= self.tagged[1]

    def is_nullable(self, version: int) -> bool:
        """Returns whether the field may be null in this version."""
        return self.nullable is not None and self.nullable[0] <= version <= self.nullable[1]

    @property
    def is_array(self) -> bool:
        """Whether the field is an array."""
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        """The type without the array's brackets."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Whether the type, or the type of the elements, is a struct."""
        return self.element[0].isupper()


class UnsupportedField(KlammError):
    """A value that the chosen version of its message can't carry; the sender must choose another version or value."""


class UnsupportedVersion(UnsupportedField):
    """A version that the message does not have."""


class Message:
    """Base class of all generated messages and of their structs.

    Instances are mutable records: equal when class and all fields are equal, and unhashable.
    """

    __slots__ = ()

    NAME: ClassVar[str] = ""
    """Kafka's name."""
    API_KEY: ClassVar[int | None] = None
    """The API of a request or response, or the record type of a coordinator's or the metadata log's record."""
    TYPE: ClassVar[str] = "struct"
    """Kafka's type of message: request, response, header, data, metadata, coordinator-key, coordinator-value; struct
    for the structs in a message."""
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    """Lowest and highest stable version, both included."""
    FLEXIBLE_FROM: ClassVar[int | None] = None
    """First version with compact lengths and tagged fields (KIP-482); None if there is none."""
    FIELDS: ClassVar[tuple[FieldRow, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, row[0]) == getattr(other, row[0]) for row in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{row[0]}={getattr(self, row[0])!r}" for row in self.FIELDS)
        return f"{type(self).__name__}({fields})"


def fields_of(cls: type[Message]) -> list[FieldSpec]:
    """Returns the fields of a message or struct, in the order of their encoding."""
    return [FieldSpec._make(row) for row in cls.FIELDS]


def struct_class(cls: type[Message], name: str) -> type[Message]:
    """Returns the struct called `name` in the module of `cls`."""
    found: type[Message] = getattr(sys.modules[cls.__module__], name)
    return found
