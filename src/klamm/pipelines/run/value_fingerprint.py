"""The fingerprint of a value, functions included: equal in each process, as long as the value means the same.

A function counts with its bytecode, constants, names, defaults, closure and the globals that it uses, recursively.
Formatting, comments, docstrings, names of functions, line numbers and memory addresses do not count. Functions and
classes of installed packages count by name, and so do objects without a stable value, such as sockets. Another version
of Python has other bytecode, and so other fingerprints.
"""

from __future__ import annotations

import builtins
import copyreg
import dataclasses
import dis
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

__all__ = ["value_fingerprint"]

_ATOMS: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_OWN_PACKAGES: Final = ("klamm", "pyspark", "py4j")
_WITHOUT_EFFECT: Final = frozenset({"NOP", "RESUME", "CACHE", "EXTENDED_ARG"})
_PAIRS: Final = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST_BORROW", "LOAD_FAST_BORROW"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
"""Instructions that Python makes of two, if these are on the same line."""
_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
# *args, **kwargs, generator, coroutine, asynchronous generator.
_FLAGS: Final = 0x4 | 0x8 | 0x20 | 0x80 | 0x200
_LENGTH: Final = 16

_Canon = tuple[Any, ...]
"""Nested tuples of texts and numbers, whose `repr` is stable."""


def value_fingerprint(value: object) -> str:
    """Returns the fingerprint, as hexadecimal digits. Never raises."""
    try:
        canon = _Canonizer().canon(value)
    except Exception:  # an object of the user may raise anything, or be nested too deeply
        canon = _named(type(value))
    return hashlib.sha256(repr(canon).encode(errors="backslashreplace")).hexdigest()[:_LENGTH]


class _Canonizer:
    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept_alive: list[object] = []
        self._forms: tuple[tuple[Any, Callable[[Any], _Canon]], ...] = (
            (tuple | list, lambda value: (type(value).__name__, *map(self.canon, value))),
            (set | frozenset, self._set),
            (Mapping, self._mapping),
            (FunctionType, self._function),
            (MethodType, lambda value: ("method", self.canon(value.__self__), self.canon(value.__func__))),
            (BuiltinFunctionType, self._builtin),
            (ModuleType, lambda value: ("module", value.__name__)),
            (type, self._class),
            (property, lambda value: ("property", self.canon(value.fget), self.canon(value.fset))),
            (cached_property, lambda value: ("property", self.canon(value.func))),
            (staticmethod | classmethod, lambda value: (type(value).__name__, self.canon(value.__func__))),
        )

    def canon(self, value: Any) -> _Canon:
        """Returns a value in a form that is equal in each process."""
        if isinstance(value, _ATOMS) and type(value) in _ATOMS:
            return (type(value).__name__, repr(value))
        if isinstance(value, CodeType):
            return self._code(value)
        if id(value) in self._seen:
            return ("again", self._seen[id(value)])
        self._seen[id(value)] = len(self._seen)
        self._kept_alive.append(value)
        found = self._compound(value)
        if isinstance(value, tuple | list | set | frozenset | Mapping):
            # Equal containers may be one object or several. Only one that contains itself needs its number.
            del self._seen[id(value)]
        return found

    def _compound(self, value: Any) -> _Canon:
        for kinds, form in self._forms:
            if isinstance(value, kinds):
                return form(value)
        return self._object(value)

    def _set(self, value: Any) -> _Canon:
        return ("set", *sorted((_Canonizer().canon(each) for each in value), key=repr))

    def _mapping(self, value: Any) -> _Canon:
        keys = sorted(((_Canonizer().canon(key), key) for key in value), key=lambda pair: repr(pair[0]))
        return ("mapping", *((text, self.canon(value[key])) for text, key in keys))

    def _builtin(self, value: Any) -> _Canon:
        owner = value.__self__
        return (*_named(value), () if isinstance(owner, ModuleType | None) else self.canon(owner))

    def _function(self, function: FunctionType) -> _Canon:
        # The module that has defined it: a wrapper tells that of what it wraps.
        module = str(function.__globals__.get("__name__"))
        if _is_installed(module):
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is None:
                return _named(function)
            # Such as what `udf` of Spark returns.
            return ("wrapper", module, self.canon(wrapped), self.canon(getattr(function, "returnType", None)))
        code = function.__code__
        return (
            "function",
            self._code(code),
            self.canon(function.__defaults__),
            self.canon(function.__kwdefaults__),
            tuple(map(self._cell, function.__closure__ or ())),
            tuple(self._global(name, function) for name in sorted(set(_global_names(code)))),
        )

    def _cell(self, cell: Any) -> _Canon:
        try:
            return self.canon(cell.cell_contents)
        except ValueError:  # not assigned yet
            return ("empty",)

    def _global(self, name: str, function: FunctionType) -> _Canon:
        of_module = function.__globals__
        if name not in of_module:
            return (name, "builtin" if hasattr(builtins, name) else "missing")
        value = of_module[name]
        if not isinstance(value, ModuleType) or _is_installed(value.__name__):
            return (name, self.canon(value))
        used = sorted(set(_attribute_names(function.__code__)) & vars(value).keys())
        return (name, "module", *((each, self.canon(vars(value)[each])) for each in used))

    def _code(self, code: CodeType) -> _Canon:
        found: list[_Canon] = []
        places: dict[int, int] = {}
        instructions = list(dis.get_instructions(code))
        for each in instructions:
            places[each.offset] = len(found)
            if each.opname in _WITHOUT_EFFECT:
                continue
            if each.opname in _PAIRS and isinstance(each.argval, tuple):
                found += [
                    (name, ("str", repr(text))) for name, text in zip(_PAIRS[each.opname], each.argval, strict=True)
                ]
            elif each.opcode in dis.hasconst:
                found.append((each.opname, self.canon(each.argval)))
            elif each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
                found.append((each.opname, "to", each.argval))
            else:
                found.append(
                    (each.opname, self.canon(each.argval if isinstance(each.argval, _ATOMS) else each.argrepr))
                )
        handlers = getattr(dis.Bytecode(code), "exception_entries", ())
        return (
            "code",
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags & _FLAGS,
            code.co_varnames[: code.co_argcount + code.co_kwonlyargcount],
            code.co_freevars,
            tuple((*each[:2], places.get(each[2], -1)) if each[1:2] == ("to",) else each for each in found),
            tuple(
                (places.get(each.start, -1), places.get(each.end, -1), places.get(each.target, -1)) for each in handlers
            ),
        )

    def _class(self, value: type) -> _Canon:
        if _is_installed(value.__module__):
            return _named(value)
        own = {
            name: each
            for name, each in vars(value).items()
            if not (name.startswith("__") and name.endswith("__")) or isinstance(each, FunctionType)
        }
        return ("class", tuple(map(self.canon, value.__bases__)), self.canon(own))

    def _object(self, value: Any) -> _Canon:
        kind = type(value)
        package = (kind.__module__ or "").partition(".")[0]
        if package == "pyspark" and hasattr(value, "jsonValue"):  # a type
            return (*_named(kind), self.canon(value.jsonValue()))
        if package not in _OWN_PACKAGES:
            return self._reduced(value)
        is_value = package == "klamm" and dataclasses.is_dataclass(value)
        fields = [each.name for each in dataclasses.fields(value) if each.compare and each.repr] if is_value else []
        return (*_named(kind), *((name, self.canon(getattr(value, name))) for name in fields))

    def _reduced(self, value: Any) -> _Canon:
        """Returns the form of an object that can be pickled; otherwise that of its class."""
        kind = type(value)
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:  # such as what `lru_cache` returns
            return (*_named(kind), self.canon(wrapped))
        try:
            reduce = copyreg.dispatch_table.get(kind)
            reduced = value.__reduce_ex__(2) if reduce is None else reduce(value)
        except Exception:  # an object of the user may raise anything
            return (*_named(kind), self.canon(kind))
        if isinstance(reduced, str):
            return (*_named(kind), reduced)
        # The last two are iterators.
        parts = [*reduced[:3], *(None if each is None else list(each) for each in reduced[3:5])]
        return ("object", *map(self.canon, parts))


def _named(value: Any) -> _Canon:
    return ("named", str(getattr(value, "__module__", None)), str(getattr(value, "__qualname__", "")))


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested(each)


def _global_names(code: CodeType) -> Iterator[str]:
    for each in _nested(code):
        for instruction in dis.get_instructions(each):
            if instruction.opname in _GLOBALS:
                yield str(instruction.argval)


def _attribute_names(code: CodeType) -> Iterator[str]:
    for each in _nested(code):
        yield from each.co_names


@cache
def _installed_folders() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")})


def _is_installed(module: str | None) -> bool:
    """Returns whether a module belongs to Python, to klamm or to an installed package, and not to the user's code."""
    root = (module or "").partition(".")[0]
    if root in _OWN_PACKAGES or root in sys.stdlib_module_names:
        return root != "__main__"
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is not None and file.startswith(_installed_folders())
