"""Descriptors of Protobuf messages: from a generated class, a descriptor set, or a registry. No I/O."""

from __future__ import annotations

import base64
import binascii
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from klamm.pipelines.decoders.decoder import DecoderError

__all__ = ["MessageFile", "find_message", "from_class", "from_registry", "from_set", "message_name", "message_names"]

_BUILT_IN: Final = {"google/": "google.", "confluent/": "confluent_kafka.schema_registry.confluent."}
"""The folders of .proto files that Python packages have, and the packages of their modules."""

# Blocks with a name in a .proto file, and braces. A group of proto2 is a message, too.
_BLOCKS: Final = re.compile(r"\bmessage\s+(\w+)\s*\{|\bgroup\s+(\w+)\s*=[^;{]*\{|([{}])|\bpackage\s+([\w.]+)\s*;")
_NOISE: Final = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)


class MessageFile(NamedTuple):
    """All files that a message needs, and the message's full name."""

    files: FileDescriptorSet
    message: str


def from_class(message_class: Any) -> MessageFile:
    """Returns the files of a generated class."""
    descriptor: Descriptor = message_class.DESCRIPTOR
    found: dict[str, FileDescriptorProto] = {}
    _add_with_dependencies(descriptor.file, found)
    return MessageFile(FileDescriptorSet(file=found.values()), descriptor.full_name)


def from_set(data: bytes, message: str | None, source: str) -> MessageFile:
    """Returns the files of a descriptor set, as `protoc --descriptor_set_out --include_imports` writes it.

    Raises `DecoderError` if it is none.
    """
    try:
        files = FileDescriptorSet.FromString(data)
    except DecodeError:
        files = FileDescriptorSet()
    if not files.file:
        raise DecoderError(
            f"{source} is no descriptor set. Make one: "
            "protoc --include_imports --descriptor_set_out=FILE.desc FILE.proto"
        )
    complete = {file.name: file for file in files.file}
    for file in list(files.file):
        _add_built_in(file.dependency, complete)
    chosen = _chosen(files.file[-1], message) if message is None else message
    return MessageFile(FileDescriptorSet(file=_in_order(complete)), chosen)


def from_registry(text: str, references: Mapping[str, str], message: str | None, source: str) -> MessageFile:
    """Returns the files of a registry's schema, whose texts are base64 file descriptors. Raises `DecoderError`."""
    files = {}
    for name, encoded in {**references, "klamm/root.proto": text}.items():
        file = _decoded(encoded)
        if file is None:
            raise DecoderError(
                f"{source}: the registry has this schema only as text. Give the message's class, or a descriptor set "
                "that protoc makes of it"
            )
        file.name = name
        files[name] = file
    root = files["klamm/root.proto"]
    for file in list(files.values()):
        _add_built_in(file.dependency, files)
    return MessageFile(FileDescriptorSet(file=_in_order(files)), _chosen(root, message))


def find_message(message_file: MessageFile) -> Descriptor:
    """Returns the descriptor of the message in a pool of its own. Raises `DecoderError`."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in message_file.files.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(message_file.message)
    except (KeyError, TypeError) as error:
        raise DecoderError(f"the message {message_file.message} is not in its files: {error}") from None


def message_names(schema: str) -> tuple[Any, ...]:
    """Returns the messages of a registry's schema, a base64 file descriptor or text: (full name, its messages) each."""
    file = _decoded(schema)
    if file is not None:
        return tuple(_names(file.message_type, f"{file.package}." if file.package else ""))
    return _names_in_text(schema)


def message_name(names: Sequence[Any], indexes: Iterable[int]) -> str | None:
    """Returns the full name of the message at a place in its file; None if there is none."""
    name = None
    for index in indexes:
        if not 0 <= index < len(names):
            return None
        name, names = names[index]
    return name


def _names(messages: Iterable[DescriptorProto], prefix: str) -> Iterator[tuple[str, Any]]:
    for message in messages:
        name = prefix + message.name
        yield name, tuple(_names(message.nested_type, f"{name}."))


def _names_in_text(text: str) -> tuple[Any, ...]:
    package = ""
    top: list[Any] = []
    open_blocks: list[tuple[str, list[Any]]] = [("", top)]
    for found in _BLOCKS.finditer(_NOISE.sub(" ", text)):
        message, group, brace, declared_package = found.groups()
        prefix, messages = open_blocks[-1]
        if declared_package:
            package = f"{declared_package}."
        elif name := message or group:
            inner: list[Any] = []
            messages.append((prefix + name, inner))
            open_blocks.append((f"{prefix}{name}.", inner))
        elif brace == "{":
            open_blocks.append((prefix, messages))
        elif len(open_blocks) > 1:
            open_blocks.pop()
    return _with_package(top, package)


def _with_package(messages: Sequence[Any], package: str) -> tuple[Any, ...]:
    return tuple((package + name, _with_package(inner, package)) for name, inner in messages)


def _decoded(schema: str) -> FileDescriptorProto | None:
    try:
        return FileDescriptorProto.FromString(base64.b64decode(schema, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _chosen(file: FileDescriptorProto, message: str | None) -> str:
    names = [name for name, _ in _names(file.message_type, f"{file.package}." if file.package else "")]
    if message is not None:
        return message if "." in message or not file.package else f"{file.package}.{message}"
    if not names:
        raise DecoderError("the Protobuf schema has no message")
    if len(names) > 1:
        raise DecoderError(
            f"the Protobuf schema has the messages {', '.join(names)}: name one, protobuf({names[0]!r}, …)"
        )
    return names[0]


def _add_with_dependencies(file: FileDescriptor, found: dict[str, FileDescriptorProto]) -> None:
    if file.name in found:
        return
    for dependency in file.dependencies:
        _add_with_dependencies(dependency, found)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    found[file.name] = proto


def _add_built_in(names: Iterable[str], files: dict[str, FileDescriptorProto]) -> None:
    for name in names:
        if name in files:
            continue
        for folder, package in _BUILT_IN.items():
            if name.startswith(folder):
                module = package + name.removeprefix(folder).removesuffix(".proto").replace("/", ".") + "_pb2"
                try:
                    _add_with_dependencies(importlib.import_module(module).DESCRIPTOR, files)
                except ImportError as error:
                    raise DecoderError(f"the Protobuf file {name} is needed and missing: {error}") from None


def _in_order(files: Mapping[str, FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Returns the files, each after those that it imports."""
    ordered: dict[str, FileDescriptorProto] = {}

    def add(name: str) -> None:
        if name in ordered:
            return
        if name not in files:
            raise DecoderError(f"the Protobuf file {name} is missing. Include it: protoc --include_imports")
        for dependency in files[name].dependency:
            add(dependency)
        ordered[name] = files[name]

    for name in files:
        add(name)
    return list(ordered.values())
