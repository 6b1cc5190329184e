"""Generates the source of an encoder from the field table of one version of a message, and compiles it.

The encoder passes chunks to `w`, the `append` of a list that is joined once. Adjacent fixed-width fields, together with
a length that follows them, become one `struct.pack`. Arrays of structs become loops in the same function.

The same source with a `yield` in each loop is an encoder in steps, for messages that may be large. It yields after
every `STEP_ELEMENTS` elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from klamm.protocol.array_structs import packers
from klamm.protocol.compile_decoder import FIXED, INDENT, is_flexible
from klamm.protocol.message import FieldSpec, Message, UnsupportedField, fields_of, struct_class
from klamm.protocol.primitives import LONGEST_STRING, encode_error_message
from klamm.protocol.varint import encode_unsigned_varint

__all__ = ["Encoder", "EncoderInSteps", "compile_encoder", "compile_encoder_in_steps", "encoder_source"]

Encoder = Callable[[Message, Callable[[bytes | memoryview], None]], None]
"""(message, append) → None."""
EncoderInSteps = Callable[[Message, Callable[[bytes | memoryview], None]], Iterator[None]]
"""As `Encoder`, in steps."""

STEP_ELEMENTS: Final = 256
"""The elements written in one step, which takes less than a millisecond."""
STEP_NUMBERS: Final = 4096
"""The numbers of one array written in one step."""

_SMALL_VARINTS: Final = tuple(bytes([value]) for value in range(128))
_NULL_LENGTHS: Final = {"B": b"\x00", "h": b"\xff\xff", "i": b"\xff\xff\xff\xff"}


class _Source:
    """The encoder's source under construction."""

    def __init__(self, cls: type[Message], version: int, *, in_steps: bool = False) -> None:
        self.version = version
        self.in_steps = in_steps
        self.where = f"{cls.__name__} version {version}"
        self.flexible = is_flexible(cls, version)
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "U": UnsupportedField,
            "V": _SMALL_VARINTS,
            "varint": encode_unsigned_varint,
            "message": encode_error_message,
        }
        self.depth = 1
        self.count = 0
        self.write = "w"
        self.run: list[tuple[str, str]] = []

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def local(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def packed(self, run: list[tuple[str, str]]) -> str:
        """Returns the expression that packs a run."""
        if run == [("0", "B")]:
            return "V[0]"
        codes = "".join(code for _, code in run)
        name = "k_" + codes.replace("?", "c")
        self.names[name] = Struct(f">{codes}").pack
        return f"{name}({', '.join(value for value, _ in run)})"

    def flush(self) -> None:
        """Emits the write of the fixed-width fields collected so far."""
        if self.run:
            self.line(f"{self.write}({self.packed(self.run)})")
            self.run.clear()

    def write_length(self, length: str, code: str) -> None:
        """Emits the write of the length in a local variable as the end of the current run; a compact one adds 1."""
        if code == "B":
            self.line(f"{length} += 1")
            if self.run:
                small = self.packed([*self.run, (length, code)])
                large = f"{self.packed(self.run)} + varint({length})"
            else:
                small, large = f"V[{length}]", f"varint({length})"
            self.line(f"{self.write}({small} if {length} < 128 else {large})")
        else:
            self.line(f"{self.write}({self.packed([*self.run, (length, code)])})")

    def write_struct(self, source: str, cls: type[Message]) -> None:
        """Emits the write of all fields of the struct in the local variable `source`."""
        fields = fields_of(cls)
        for field in fields:
            if not field.present(self.version) and not field.ignorable:
                self.refuse_value(f"{source}.{field.name}", cls, field)
        for field in fields:
            if field.present(self.version) and not field.is_tagged(self.version):
                self.write_field(f"{source}.{field.name}", cls, field, self.flexible)
        if self.flexible:
            tagged = [field for field in fields if field.is_tagged(self.version)]
            self.write_tags(source, cls, sorted(tagged, key=lambda field: field.tag or 0))

    def differs(self, source: str, cls: type[Message], field: FieldSpec) -> str:
        """Returns the condition that a field differs from its default."""
        if field.default is None:
            return f"{source} is not None"
        if field.is_array or field.type == "bytes":
            return f"{source} is None or {source}" if field.nullable else source
        if field.default == ():
            name = self.local("D")
            self.names[name] = struct_class(cls, field.element)()
            return f"{source} != {name}"
        if field.type == "bool":
            return f"not {source}" if field.default else source
        return f"{source} != {field.default!r}"

    def refuse_value(self, source: str, cls: type[Message], field: FieldSpec) -> None:
        message = f"{self.where} has no {field.name}"
        self.line(f"if {self.differs(source, cls, field)}: raise U({message!r})")

    def write_tags(self, source: str, cls: type[Message], tagged: list[FieldSpec]) -> None:
        if not tagged:
            self.run.append(("0", "B"))
            self.flush()
            return
        self.flush()
        tags = self.local("t")
        self.line(f"{tags} = []")
        outer = self.write
        for field in tagged:
            self.line(f"if {self.differs(f'{source}.{field.name}', cls, field)}:")
            self.depth += 1
            parts, body = self.local("q"), self.local("b")
            self.line(f"{parts} = []; w{parts} = {parts}.append")
            self.write = f"w{parts}"
            self.write_field(f"{source}.{field.name}", cls, field, True, tagged=True)
            self.flush()
            self.line(f"{body} = b''.join({parts})")
            self.line(f"{tags} += ({encode_unsigned_varint(field.tag or 0)!r}, varint(len({body})), {body})")
            self.depth -= 1
        self.write = outer
        self.line(f"{outer}(V[len({tags}) // 3])")
        self.line(f"if {tags}: {outer}(b''.join({tags}))")

    def write_field(
        self, source: str, cls: type[Message], field: FieldSpec, flexible: bool, *, tagged: bool = False
    ) -> None:
        if field.type in FIXED:
            self.run.append((source, FIXED[field.type][0]))
        elif field.is_array:
            self.write_array(source, cls, field, flexible)
        elif field.is_struct:
            self.write_single_struct(source, cls, field, tagged)
        else:
            self.write_bytes(source, field, flexible)

    def branch_on_null(self, value: str, null: bytes) -> None:
        """Emits the write of null, and opens the `else` branch for a value; each branch writes the current run."""
        self.line(f"if {value} is None:")
        self.depth += 1
        self.line(f"{self.write}({self.packed(self.run)} + {null!r})" if self.run else f"{self.write}({null!r})")
        self.depth -= 1
        self.line("else:")
        self.depth += 1

    def write_single_struct(self, source: str, cls: type[Message], field: FieldSpec, tagged: bool) -> None:
        name = self.local("o")
        depth = self.depth
        self.line(f"{name} = {source}")
        if field.is_nullable(self.version):
            # Kafka marks presence with an int8, and in a tagged field with a varint.
            self.branch_on_null(name, b"\x00" if tagged else b"\xff")
            self.run.append(("1", "b"))
        self.write_struct(name, struct_class(cls, field.element))
        if depth != self.depth:
            self.flush()
        self.depth = depth

    def write_bytes(self, source: str, field: FieldSpec, flexible: bool) -> None:
        """Emits the write of a string, bytes or records: a length and that many bytes."""
        code = "B" if flexible and field.type != "string16" else "h" if field.type.startswith("string") else "i"
        depth = self.depth
        value, length = self.local("b"), self.local("n")
        is_text = field.type.startswith("string")
        is_message = is_text and field.name.endswith("error_message")
        if field.is_nullable(self.version):
            self.line(f"{value} = {source}")
            self.branch_on_null(value, _NULL_LENGTHS[code])
            source = value
        if is_message:
            self.line(f"{value} = message({source})")
        elif is_text or source is not value:
            self.line(f"{value} = {source}{'.encode()' if is_text else ''}")
        self.line(f"{length} = len({value})")
        if code == "B" and is_text and not is_message:
            self.line(f"if {length} > {LONGEST_STRING}: raise U({f'{self.where}: {field.name} is too long'!r})")
        self.write_length(length, code)
        self.line(f"{self.write}({value})")
        self.run.clear()
        self.depth = depth

    def write_array(self, source: str, cls: type[Message], field: FieldSpec, flexible: bool) -> None:
        depth = self.depth
        code = "B" if flexible else "i"
        items, length = self.local("l"), self.local("n")
        self.line(f"{items} = {source}")
        if field.is_nullable(self.version):
            self.branch_on_null(items, _NULL_LENGTHS[code])
        self.line(f"{length} = len({items})")
        self.write_length(length, code)
        self.run.clear()
        if field.element in FIXED and field.element != "uuid":
            self.write_numbers(items, FIXED[field.element][0], f"{length} - 1" if flexible else length)
        else:
            item = self.local("o")
            self.line(f"for {item} in {items}:")
            self.depth += 1
            if field.is_struct:
                before = len(self.lines)
                self.write_struct(item, struct_class(cls, field.element))
                self.flush()
                if len(self.lines) == before:
                    self.line("pass")
            else:
                self.write_field(item, cls, field._replace(type=field.element, nullable=None), flexible)
                self.flush()
            if self.in_steps:
                self.line("k -= 1")
                self.line(f"if not k: yield; k = {STEP_ELEMENTS}")
        self.depth = depth

    def write_numbers(self, items: str, code: str, count: str) -> None:
        """Emits the write of a list of numbers; an encoder in steps writes them in portions."""
        self.names[f"a_{code}"] = packers(code)
        is_short = f"{count} <= {STEP_NUMBERS}" if self.in_steps else items
        if self.in_steps:
            self.line(f"if {items}:")
            self.depth += 1
        self.line(f"if {is_short}: {self.write}(a_{code}[{count}](*{items}))")
        if not self.in_steps:
            return
        start, some = self.local("i"), self.local("l")
        self.line("else:")
        self.depth += 1
        self.line(f"for {start} in range(0, len({items}), {STEP_NUMBERS}):")
        self.depth += 1
        self.line(f"if {start}: yield")
        self.line(f"{some} = {items}[{start}:{start} + {STEP_NUMBERS}]")
        self.line(f"{self.write}(a_{code}[len({some})](*{some}))")
        self.depth -= 3


def encoder_source(cls: type[Message], version: int, *, in_steps: bool = False) -> tuple[str, dict[str, Any]]:
    """Returns the encoder's source and its namespace."""
    source = _Source(cls, version, in_steps=in_steps)
    if in_steps:
        source.line(f"k = {STEP_ELEMENTS}")
    source.write_struct("o", cls)
    source.flush()
    source.line("yield" if in_steps else "return")
    return "def encode(o, w):\n" + "\n".join(source.lines), source.names


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """Compiles the encoder of one version of a message.

    The encoder's struct.error, AttributeError and TypeError mean that the version can't carry a value.
    """
    text, names = encoder_source(cls, version)
    exec(compile(text, f"<encoder of {cls.__name__} version {version}>", "exec"), names)
    encoder: Encoder = names["encode"]
    return encoder


def compile_encoder_in_steps(cls: type[Message], version: int) -> EncoderInSteps:
    """Compiles the encoder in steps of one version of a message; it raises as the encoder of `compile_encoder`."""
    text, names = encoder_source(cls, version, in_steps=True)
    exec(compile(text, f"<encoder in steps of {cls.__name__} version {version}>", "exec"), names)
    encoder: EncoderInSteps = names["encode"]
    return encoder
