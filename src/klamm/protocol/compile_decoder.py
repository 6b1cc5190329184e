"""Generates the source of a decoder from the field table of one version of a message, and compiles it.

Adjacent fixed-width fields, together with a length that follows them, become one `struct.unpack_from`. Arrays of
structs become loops in the same function, so that an element costs no call. Each length and count is compared with the
remaining bytes before any object of that size is created. `codec.decode` catches reads beyond the end of the input.

The same source with a `yield` in each loop is a decoder in steps, for messages from outside that may be large. It
yields each time it has read `STEP_BYTES`, and refuses a message with more than `MAXIMUM_ELEMENTS` in its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from klamm.protocol.array_structs import unpackers
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import FieldSpec, Message, fields_of, struct_class
from klamm.protocol.varint import read_unsigned_varint, skip_tagged_fields

__all__ = [
    "Decoder",
    "DecoderInSteps",
    "MAXIMUM_ELEMENTS",
    "compile_decoder",
    "compile_decoder_in_steps",
    "contains_records",
    "decoder_source",
]

Decoder = Callable[[bytes | memoryview, int, int], tuple[Message, int]]
"""(data, position, end of data) → (message, position after it)."""
DecoderInSteps = Callable[[memoryview, int, int], Iterator[Message]]
"""As `Decoder`, in steps. Each step yields the message as far as it has been read; the last step yields all of it."""

FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Kafka's fixed-width types: struct code, width in bytes."""
INDENT: Final = " "
LONGEST_STRING: Final = 32767
"""As in Kafka, also for strings whose length is a varint."""

MAXIMUM_ELEMENTS: Final = 2**17
"""Limit for the elements in all arrays of a message together if it is decoded in steps. Elements take up to a hundred
times the memory of their bytes. A dictionary of this size is resized within five milliseconds."""
LARGEST_BYTES_FIELD: Final = 2**23
"""Size limit for a field of type `bytes` in a message that is decoded in steps: copying that much takes five
milliseconds."""
STEP_BYTES: Final = 2048
"""The bytes read in one step, which takes less than a millisecond even if each byte is an element."""
STEP_NUMBERS: Final = 4096
"""The numbers of one array read in one step."""


def is_flexible(cls: type[Message], version: int) -> bool:
    """Returns whether this version has compact lengths and tagged fields."""
    return cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM


def contains_records(cls: type[Message], version: int) -> bool:
    """Returns whether this version has a field of type `records`, at any depth."""
    return any(
        field.type == "records" or (field.is_struct and contains_records(struct_class(cls, field.element), version))
        for field in fields_of(cls)
        if field.present(version)
    )


def minimum_bytes(cls: type[Message], version: int) -> int:
    """Returns the minimum encoded size of one struct."""
    flexible = is_flexible(cls, version)
    total = 1 if flexible else 0
    for field in fields_of(cls):
        if not field.present(version) or field.is_tagged(version):
            continue
        if field.type in FIXED:
            total += FIXED[field.type][1]
        elif field.type == "string16":
            total += 2
        elif field.is_struct and not field.is_array:
            nullable = field.is_nullable(version)
            total += 1 if nullable else minimum_bytes(struct_class(cls, field.element), version)
        elif flexible:
            total += 1
        else:
            total += 2 if field.type == "string" else 4
    return total


class _Source:
    """The decoder's source under construction."""

    def __init__(self, cls: type[Message], version: int, *, in_steps: bool = False) -> None:
        self.cls = cls
        self.version = version
        self.flexible = is_flexible(cls, version)
        self.in_steps = in_steps
        # The input is a view for `records` fields, and for messages too large to be copied first; otherwise it is
        # bytes, whose slices have `decode`.
        self.view = in_steps or contains_records(cls, version)
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "M": MalformedMessage,
            "new": object.__new__,
            "varint": read_unsigned_varint,
            "skip": skip_tagged_fields,
        }
        self.depth = 1
        self.count = 0
        self.run: list[tuple[str, str]] = []

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def local(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def bind(self, prefix: str, value: object) -> str:
        """Returns the name of `value` in the source's namespace, and adds it if it is missing."""
        for name, bound in self.names.items():
            if bound is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def flush(self) -> None:
        """Emits the read of the fixed-width fields collected so far."""
        if not self.run:
            return
        targets = ", ".join(target for target, _ in self.run)
        codes = "".join(code for _, code in self.run)
        if codes == "B":
            self.line(f"{targets} = data[p]; p += 1")
        else:
            layout = Struct(f">{codes}")
            trailing = "," if len(self.run) == 1 else ""
            name = "u_" + codes.replace("?", "c")
            self.names[name] = layout.unpack_from
            self.line(f"{targets}{trailing} = {name}(data, p); p += {layout.size}")
        self.run.clear()

    def read_length(self, code: str, *, text: str = "") -> str:
        """Emits the read of a length as the end of the current run, and returns the name of its local variable.

        A compact length is one more than the real one. `text` is the name of the field if the length is a string's.
        """
        length = self.local("n")
        self.run.append((length, code))
        self.flush()
        if code == "B":
            self.line(f"if {length} > 127:")
            self.line(f"{INDENT}{length}, p = varint(data, p - 1)")
            if text:
                self.line(f"{INDENT}if {length} > {LONGEST_STRING + 1}: raise M({text + ' is too long'!r})")
        return length

    def end_element(self) -> None:
        """Ends the body of a loop; a decoder in steps yields here when it has read enough."""
        if self.in_steps:
            self.line("if p > q: yield o; q = p + STEP_BYTES")

    def count_elements(self, count: str) -> None:
        """Emits the check for too many elements, in a decoder in steps."""
        if self.in_steps:
            self.line(f"room -= {count}")
            self.line(f"if room < 0: raise M('its arrays have more than {MAXIMUM_ELEMENTS} elements')")

    def null_or_error(self, target: str, what: str, condition: str, field: FieldSpec) -> None:
        """Emits the treatment of null: for a nullable field an `else` branch one level deeper, otherwise an error."""
        if field.is_nullable(self.version):
            self.line(f"if {condition}: {target} = None")
            self.line("else:")
            self.depth += 1
        else:
            self.line(f"if {condition}: raise M({what + ' is null'!r})")

    def read_struct(self, target: str, cls: type[Message]) -> None:
        """Emits the read of all fields of a struct into the object in the local variable `target`."""
        fields = fields_of(cls)
        known_tags = [field for field in fields if field.is_tagged(self.version)]
        for field in fields:
            if not field.present(self.version) or field.is_tagged(self.version):
                self.set_default(f"{target}.{field.name}", cls, field)
        for field in fields:
            if field.present(self.version) and not field.is_tagged(self.version):
                self.read_field(f"{target}.{field.name}", cls, field, self.flexible)
        if self.flexible:
            self.read_tags(target, cls, known_tags)
        self.flush()

    def set_default(self, target: str, cls: type[Message], field: FieldSpec) -> None:
        if field.default == ():
            fresh = "[]" if field.is_array else f"{self.bind('C', struct_class(cls, field.element))}()"
            self.line(f"{target} = {fresh}")
        elif field.type == "uuid":
            self.line(f"{target} = {self.bind('D', field.default)}")
        else:
            self.line(f"{target} = {field.default!r}")

    def read_tags(self, target: str, cls: type[Message], known: list[FieldSpec]) -> None:
        count = self.local("n")
        self.run.append((count, "B"))
        self.flush()
        if not known and not self.in_steps:
            self.line(f"if {count}: p = skip(data, p - 1)")
            return
        tag, size, start = self.local("t"), self.local("s"), self.local("p")
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127: {count}, p = varint(data, p - 1)")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        for name in (tag, size):
            self.line(f"{name} = data[p]; p += 1")
            self.line(f"if {name} > 127: {name}, p = varint(data, p - 1)")
        self.line(f"{start} = p + {size}")
        self.line(f"if {start} > end: raise M('a tagged field is longer than the bytes that remain')")
        keyword = "if"
        for field in known:
            self.line(f"{keyword} {tag} == {field.tag}:")
            keyword = "elif"
            self.depth += 1
            self.read_field(f"{target}.{field.name}", cls, field, True, tagged=True)
            self.flush()
            self.line(f"if p != {start}: raise M({'tagged field ' + field.name + ' has another size'!r})")
            self.depth -= 1
        self.line(f"else: p = {start}" if known else f"p = {start}")
        self.end_element()
        self.depth -= 2

    def read_field(
        self, target: str, cls: type[Message], field: FieldSpec, flexible: bool, *, tagged: bool = False
    ) -> None:
        if field.type in FIXED:
            self.run.append((target, FIXED[field.type][0]))
        elif field.is_array:
            self.read_array(target, cls, field, flexible)
        elif field.is_struct:
            self.read_single_struct(target, cls, field, tagged)
        else:
            self.read_bytes(target, field, flexible)

    def read_single_struct(self, target: str, cls: type[Message], field: FieldSpec, tagged: bool) -> None:
        inner = struct_class(cls, field.element)
        nullable = field.is_nullable(self.version)
        if nullable:
            marker = self.local("n")
            # Kafka marks presence with an int8, and in a tagged field with a varint.
            self.run.append((marker, "B" if tagged else "b"))
            self.flush()
            self.line(f"if {marker} {'== 0' if tagged else '< 0'}: {target} = None")
            self.line("else:")
            self.depth += 1
        name = self.local("o")
        self.line(f"{target} = {name} = new({self.bind('C', inner)})")
        self.read_struct(name, inner)
        if nullable:
            self.depth -= 1

    def read_bytes(self, target: str, field: FieldSpec, flexible: bool) -> None:
        """Emits the read of a string, bytes or records: a length and that many bytes."""
        compact = flexible and field.type != "string16"
        depth = self.depth
        is_text = field.type.startswith("string")
        length = self.read_length("B" if compact else "h" if is_text else "i", text=field.name if is_text else "")
        self.null_or_error(target, field.name, f"{length} == 0" if compact else f"{length} < 0", field)
        stop = self.local("e")
        if field.type == "bytes" and self.in_steps:
            self.line(f"if {length} > {LARGEST_BYTES_FIELD}: raise M({field.name + ' is too large'!r})")
        self.line(f"{stop} = p + {length}{' - 1' if compact else ''}")
        self.line(f"if {stop} > end: raise M({field.name + ' is longer than the bytes that remain'!r})")
        self.line(f"{target} = {self.slice(field.type, stop)}; p = {stop}")
        self.depth = depth

    def slice(self, kind: str, stop: str) -> str:
        if kind == "records":
            return f"data[p:{stop}]"
        if kind == "bytes":
            return f"bytes(data[p:{stop}])" if self.view else f"data[p:{stop}]"
        return f"str(data[p:{stop}], 'utf-8')" if self.view else f"data[p:{stop}].decode()"

    def read_array(self, target: str, cls: type[Message], field: FieldSpec, flexible: bool) -> None:
        depth = self.depth
        count = self.read_length("B" if flexible else "i")
        self.null_or_error(target, field.name, f"{count} == 0" if flexible else f"{count} < 0", field)
        if flexible:
            self.line(f"{count} -= 1")
        too_many = f"raise M({'more ' + field.name + ' announced than bytes remain'!r})"
        if field.element in FIXED:
            self.line(f"if {count}:")
            self.depth += 1
            code, width = FIXED[field.element]
            self.line(f"if {count}{f' * {width}' if width > 1 else ''} > end - p: {too_many}")
            self.count_elements(count)
            self.read_numbers(target, code, width, count)
            self.depth -= 1
            self.line(f"else: {target} = []")
            self.depth = depth
            return
        items = self.local("l")
        self.line(f"{target} = {items} = []")
        self.line(f"if {count}:")
        self.depth += 1
        inner = struct_class(cls, field.element) if field.is_struct else None
        least = minimum_bytes(inner, self.version) if inner else FIXED.get(field.element, ("", 1 if flexible else 2))[1]
        self.line(f"if {count} * {least} > end - p: {too_many}")
        self.count_elements(count)
        self.line(f"for _ in range({count}):")
        self.depth += 1
        if inner:
            assert least > 0, f"{inner.__name__} can be empty: a count of it is not bounded by the input"
            name = self.local("o")
            self.line(f"{name} = new({self.bind('C', inner)})")
            self.read_struct(name, inner)
            self.line(f"{items}.append({name})")
        else:
            element = self.local("x")
            self.read_field(element, cls, field._replace(type=field.element, nullable=None), flexible)
            self.flush()
            self.line(f"{items}.append({element})")
        self.end_element()
        self.depth = depth

    def read_numbers(self, target: str, code: str, width: int, count: str) -> None:
        """Emits the read of `count` fixed-width values, at least one; a decoder in steps reads them in portions."""
        if code == "16s":
            piece = "bytes(data[i:i + 16])" if self.view else "data[i:i + 16]"
            values = f"[{piece} for i in range(p, p + {{count}} * 16, 16)]"
        else:
            self.names[f"a_{code}"] = unpackers(code)
            values = f"list(a_{code}[{{count}}](data, p))"
        if self.in_steps:
            self.line(f"if {count} <= {STEP_NUMBERS}:")
            self.depth += 1
        self.line(f"{target} = {values.format(count=count)}; p += {count} * {width}")
        if not self.in_steps:
            return
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        items, some = self.local("l"), self.local("n")
        self.line(f"{target} = {items} = []")
        self.line(f"while {count}:")
        self.depth += 1
        self.line(f"{some} = min({count}, {STEP_NUMBERS})")
        self.line(f"{items} += {values.format(count=some)}; p += {some} * {width}; {count} -= {some}")
        self.line(f"if {count}: yield o")
        self.depth -= 2


def decoder_source(cls: type[Message], version: int, *, in_steps: bool = False) -> tuple[str, dict[str, Any]]:
    """Returns the decoder's source and its namespace."""
    source = _Source(cls, version, in_steps=in_steps)
    if in_steps:
        source.names["STEP_BYTES"] = STEP_BYTES
        source.line(f"room = {MAXIMUM_ELEMENTS}; q = p + STEP_BYTES")
    source.line(f"o = new({source.bind('C', cls)})")
    source.read_struct("o", cls)
    source.line("yield o" if in_steps else "return o, p")
    return "def decode(data, p, end):\n" + "\n".join(source.lines), source.names


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """Compiles the decoder of one version of a message.

    The decoder's IndexError, struct.error and UnicodeDecodeError mean malformed input.
    """
    text, names = decoder_source(cls, version)
    exec(compile(text, f"<decoder of {cls.__name__} version {version}>", "exec"), names)
    decoder: Decoder = names["decode"]
    return decoder


def compile_decoder_in_steps(cls: type[Message], version: int) -> DecoderInSteps:
    """Compiles the decoder in steps of one version of a message; it raises as the decoder of `compile_decoder`."""
    text, names = decoder_source(cls, version, in_steps=True)
    exec(compile(text, f"<decoder in steps of {cls.__name__} version {version}>", "exec"), names)
    decoder: DecoderInSteps = names["decode"]
    return decoder
