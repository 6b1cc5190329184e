"""Protobuf files for tests, made without protoc."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

__all__ = ["message_class", "proto_file"]

_LABELS: Final = {"optional": 1, "required": 2, "repeated": 3}


def proto_file(
    name: str,
    messages: Mapping[str, Mapping[str, str]],
    *,
    package: str = "shop",
    imports: tuple[str, ...] = (),
    enums: Mapping[str, tuple[str, ...]] | None = None,
    syntax: str = "proto3",
) -> FileDescriptorProto:
    """Returns a file with these messages, `{"Order": {"id": "int32", "tags": "repeated string"}}`; numbers start at 1.

    A field is `TYPE`, `optional TYPE` (proto2), `optional3 TYPE` (proto3), `repeated TYPE`, `map KEY VALUE`, or
    `oneof NAME TYPE`. A type with a dot in front
    is the full name of a message; one with a `#` in front that of an enum.
    """
    file = FileDescriptorProto(name=name, package=package, syntax=syntax, dependency=imports)
    for enum, values in (enums or {}).items():
        added = file.enum_type.add(name=enum)
        for number, value in enumerate(values):
            added.value.add(name=value, number=number)
    for message, fields in messages.items():
        into = file.message_type.add(name=message)
        for number, (field, kind) in enumerate(fields.items(), 1):
            _add_field(into, f".{package}.{message}", into.field.add(name=field, number=number, label=1), kind.split())
    return file


def _add_field(into: DescriptorProto, owner: str, field: FieldDescriptorProto, words: list[str]) -> None:
    name = field.name
    match words:
        case ["map", key, value]:
            entry = into.nested_type.add(name=f"{name.capitalize()}Entry")
            entry.options.map_entry = True
            _set_type(entry.field.add(name="key", number=1, label=1), key)
            _set_type(entry.field.add(name="value", number=2, label=1), value)
            field.label = 3
            _set_type(field, f"{owner}.{entry.name}")
        case ["oneof", group, kind]:
            names = [oneof.name for oneof in into.oneof_decl]
            if group not in names:
                into.oneof_decl.add(name=group)
                names.append(group)
            field.oneof_index = names.index(group)
            _set_type(field, kind)
        case ["optional3", kind]:
            _set_type(field, kind)
            field.proto3_optional = True
            into.oneof_decl.add(name=f"_{name}")
            field.oneof_index = len(into.oneof_decl) - 1
        case [label, kind]:
            field.label = _LABELS[label]
            _set_type(field, kind)
        case [kind]:
            _set_type(field, kind)
        case _:
            raise AssertionError(words)


def _set_type(field: FieldDescriptorProto, kind: str) -> None:
    if kind.startswith("."):
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
    elif kind.startswith("#"):
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, kind[1:]
    else:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")


def message_class(name: str, *files: FileDescriptorProto) -> Any:
    """Returns the class of a message, as protoc would generate it, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        for dependency in file.dependency:
            if dependency.startswith("google/protobuf/"):
                module = dependency.removesuffix(".proto").replace("/", ".") + "_pb2"
                pool.AddSerializedFile(importlib.import_module(module).DESCRIPTOR.serialized_pb)
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))
