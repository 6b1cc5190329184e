"""Makes the largest requests that fit into a frame of a given size, from the schema.

There is one request for each array of each version of each API, filled with the smallest elements, and one request for
everything that the broker has.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, Final, NamedTuple

from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import encode
from klamm.protocol.codec_in_steps import MAXIMUM_ELEMENTS
from klamm.protocol.compile_decoder import FIXED, minimum_bytes
from klamm.protocol.message import FieldSpec, Message, fields_of, struct_class

__all__ = ["LargestRequest", "largest_requests", "paths_of"]

TOPIC: Final = "swept"
SURROUNDING_ELEMENTS: Final = 8
"""More elements than the arrays around a long array contain, because they count towards the maximum too."""
Path = tuple[str, ...]

TEXTS: Final = {"group_id": "swept-group", "transactional_id": "swept-transaction", "member_id": "member"}
"""Values of string fields with these names; other string fields contain the name of a topic."""
NUMBERS: Final[dict[str, int]] = {
    "resource_type": 32,  # a group, because any name is accepted
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "max_wait_ms": 0,
    "acks": 1,
    "timeout_ms": 1000,
    "transaction_timeout_ms": 1000,
    # A specific ACL or filter, because Kafka closes the connection for other values.
    "operation": 3,
    "permission_type": 3,
    "resource_type_filter": 2,
    "pattern_type_filter": 3,
}
INDEXES: Final = frozenset({"partition_index", "index", "partition", "partition_indexes", "partitions"})
"""Number fields that differ between different elements."""


class LargestRequest(NamedTuple):
    """A request with one array of the maximum length."""

    key: ApiKey
    version: int
    path: Path
    """The names of the array and of the arrays around it; empty for a request for everything."""
    differ: bool
    """Whether the elements are different from each other."""

    def __str__(self) -> str:
        array = f"{'.'.join(self.path)} {'different' if self.differ else 'equal'}" if self.path else "for all"
        return f"{self.key.name} v{self.version} {array}"

    def body(self, frame_bytes: int) -> bytes:
        """Returns the request with as many elements as the frame or the limit of elements per request allows."""
        cls = API_SPECS[self.key].request_class()
        return encode(_Builder(self.version, self.differ, frame_bytes).message(cls, self.path), self.version)


def largest_requests(key: ApiKey, version: int) -> Iterator[LargestRequest]:
    """Yields a request for everything; then, for each array of this version, one with equal and one with different
    elements."""
    yield LargestRequest(key, version, (), differ=False)
    for path in paths_of(API_SPECS[key].request_class(), version):
        yield LargestRequest(key, version, path, differ=False)
        yield LargestRequest(key, version, path, differ=True)


def paths_of(cls: type[Message], version: int) -> Iterator[Path]:
    """Yields the paths of a struct's arrays, including arrays in its elements."""
    for field in fields_of(cls):
        if not field.present(version):
            continue
        if field.is_array:
            yield (field.name,)
        if field.is_struct:
            for path in paths_of(struct_class(cls, field.element), version):
                yield (field.name, *path)


class _Builder:
    def __init__(self, version: int, differ: bool, frame_bytes: int) -> None:
        self._version = version
        self._differ = differ
        self._frame_bytes = frame_bytes

    def message(self, cls: type[Message], path: Path, number: int = 0) -> Message:
        """Returns a struct whose array at `path` has the maximum length. Other arrays are null, which often means
        everything, or else empty."""
        message = cls()
        for field in fields_of(cls):
            if not field.present(self._version):
                continue
            if path and field.name == path[0]:
                setattr(message, field.name, self._filled(cls, field, path[1:]))
            elif not field.is_array and not field.is_struct:
                setattr(message, field.name, self._scalar(field, number if self._differ else 0))
            elif field.is_nullable(self._version):
                setattr(message, field.name, None)
        return message

    def _filled(self, cls: type[Message], field: FieldSpec, path: Path) -> Any:
        inner = struct_class(cls, field.element) if field.is_struct else None
        if inner is not None and path:
            one = self.message(inner, path)
            return [one] if field.is_array else one
        count = min(self._frame_bytes // self._smallest_bytes(inner, field), MAXIMUM_ELEMENTS - SURROUNDING_ELEMENTS)
        if inner is not None:
            return self._elements(inner, count)
        element = field._replace(type=field.element, nullable=None, default="" if field.element == "string" else 0)
        return [self._scalar(element, number if self._differ else 0) for number in range(count)]

    def _elements(self, inner: type[Message], count: int) -> list[Message]:
        """Returns copies of one struct, in which only the fields that depend on its number are set again."""
        first = self.message(inner, ())
        if not self._differ:
            return [first] * count
        varying = [
            field
            for field in fields_of(inner)
            if field.present(self._version)
            and not (field.is_array or field.is_struct)
            and self._scalar(field, 0) != self._scalar(field, 1)
        ]
        elements = [copy(first) for _ in range(count)]
        for field in varying:
            for number, element in enumerate(elements):
                setattr(element, field.name, self._scalar(field, number))
        return elements

    def _smallest_bytes(self, inner: type[Message] | None, field: FieldSpec) -> int:
        """Returns approximately the size of one element."""
        if inner is not None:
            texts = sum(each.type == "string" and each.present(self._version) for each in fields_of(inner))
            return minimum_bytes(inner, self._version) + texts * (5 if self._differ else 3)
        if field.element in FIXED:
            return FIXED[field.element][1]
        return 7 if self._differ else 5

    def _scalar(self, field: FieldSpec, number: int) -> Any:
        kind, value = field.type, field.default
        if kind in {"string", "string16"}:
            value = f"n{number:x}" if number else TEXTS.get(field.name, TOPIC)
        elif kind == "uuid":
            value = (number + 1).to_bytes(16, "big")
        elif kind in {"bytes", "records"}:
            value = None if field.is_nullable(self._version) else b""
        elif kind == "int32" and field.name in INDEXES:
            value = number
        elif field.name in NUMBERS:
            value = NUMBERS[field.name]
        return value
