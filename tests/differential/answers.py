"""Builds requests from plain values, and writes answers as lines that a person can read and compare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.interop.wire_conversations.masks import Tree

from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message, fields_of, struct_class

__all__ = ["build", "lines_of"]

_LEFT_OUT: Final = {"throttle_time_ms"}
_ERROR_CODES: Final = {"error_code", "partition_error_code"}


def build(kind: type[Message], values: dict[str, object]) -> Message:
    """Returns a message with these values of its fields; a struct is a dict. Raises KeyError for an unknown field."""
    message = kind()
    specs = {spec.name: spec for spec in fields_of(kind)}
    for name, value in values.items():
        spec = specs[name]
        if spec.is_struct and value is not None:
            struct = struct_class(kind, spec.element)
            built = [build(struct, each) for each in value] if isinstance(value, list) else build(struct, _dict(value))
            setattr(message, name, built)
        else:
            setattr(message, name, value)
    return message


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict), value
    return value


def lines_of(tree: Tree) -> list[str]:
    """Returns a line for each struct of an answer: its path and its plain fields. Error codes have their names."""
    return list(_lines(tree, ""))


def _lines(tree: Tree, path: str) -> Iterator[str]:
    if not isinstance(tree, dict):
        yield f"{path} {tree!r}".strip()
        return
    plain = {name: value for name, value in tree.items() if not _has_structs(value) and name not in _LEFT_OUT}
    text = " ".join(f"{name}={_text(name, value)}" for name, value in plain.items())
    if text:
        yield f"{path} {text}".strip()
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _lines(value, f"{path}.{name}".strip("."))
        elif isinstance(value, list) and name not in plain:
            for index, each in enumerate(value):
                yield from _lines(each, f"{path}.{name}[{index}]".strip("."))


def _has_structs(value: Tree) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value))


def _text(name: str, value: Tree) -> str:
    if name in _ERROR_CODES and isinstance(value, int):
        return ErrorCode(value).name
    return repr(value)
