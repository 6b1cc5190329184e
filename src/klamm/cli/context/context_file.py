"""Contexts: names for clusters, each with the user's environment, kept in a file as in kubectl.

`$KLAMM_CONFIG` lists files, separated as in PATH; without it there is one, `$XDG_CONFIG_HOME/klamm/contexts.toml`. The
files are merged: of two contexts with one name, and of two current contexts, the first file's counts. A change goes to
the file that has the context; a new context goes to the first file that exists, or else to the last of the list.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from klamm.errors import KlammError

__all__ = ["Context", "ContextFileError", "ContextFiles", "context_paths"]

_CONFIG_VARIABLE: Final = "KLAMM_CONFIG"
_FILE_NAME: Final = "contexts.toml"
NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
# Without a dot: the first dot of a group id ends the environment.
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
_KEYS: Final = {"bootstrap_server", "environment", "properties"}


class ContextFileError(KlammError):
    """A file of contexts can't be read or written, or a context does not exist."""


@dataclass(frozen=True, slots=True)
class Context:
    """A cluster's address and properties, and the environment whose groups the user works with."""

    name: str
    bootstrap_server: str
    environment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """librdkafka's properties, as -X sets them."""


@dataclass(slots=True)
class _Content:
    """The content of one file."""

    current: str | None = None
    contexts: dict[str, Context] = field(default_factory=dict)


def context_paths(environ: Mapping[str, str]) -> list[Path]:
    """Returns the files of contexts, in order of precedence."""
    listed = [Path(part) for part in environ.get(_CONFIG_VARIABLE, "").split(os.pathsep) if part]
    if listed:
        return listed
    base = environ.get("XDG_CONFIG_HOME", "")
    # XDG requires to ignore a path that isn't absolute.
    folder = Path(base) if os.path.isabs(base) else Path(environ.get("HOME") or Path.home()) / ".config"
    return [folder / "klamm" / _FILE_NAME]


class ContextFiles:
    """The merged contexts of all files. Every method raises ContextFileError."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self._contents = {path: _read(path) for path in paths}

    @property
    def contexts(self) -> dict[str, Context]:
        """All contexts by name."""
        merged: dict[str, Context] = {}
        for content in reversed(self._contents.values()):
            merged |= content.contexts
        return dict(sorted(merged.items()))

    @property
    def current(self) -> str | None:
        """The name of the current context."""
        return next((each.current for each in self._contents.values() if each.current is not None), None)

    @property
    def environments(self) -> frozenset[str]:
        """The environments of all contexts."""
        return frozenset(each.environment for each in self.contexts.values() if each.environment is not None)

    def get(self, name: str) -> Context:
        """Returns the context with that name."""
        context = self.contexts.get(name)
        if context is None:
            raise ContextFileError(
                f"there is no context {name}: `klamm context list` shows the contexts, "
                f"`klamm context add {name} --bootstrap-server HOST:PORT` makes one"
            )
        return context

    def path_of(self, name: str) -> Path | None:
        """Returns the file that has the context; None if no file has it."""
        return next((path for path, content in self._contents.items() if name in content.contexts), None)

    def put(self, context: Context) -> Path:
        """Adds a context, or replaces the one with its name. Returns the file."""
        _check_name(context.name)
        _check_environment(context.environment)
        path = self.path_of(context.name) or self._path_for_new()
        with self._changed(path) as content:
            content.contexts[context.name] = context
        return path

    def remove(self, name: str) -> Path:
        """Removes a context, also as the current context of any file. Returns the file that had it."""
        self.get(name)
        found = self.path_of(name) or self.paths[0]
        for path in self.paths:
            if path == found or self._contents[path].current == name:
                with self._changed(path) as content:
                    if path == found:
                        content.contexts.pop(name, None)
                    if content.current == name:
                        content.current = None
        return found

    def use(self, name: str) -> Path:
        """Makes a context the current one. Returns the file that was changed."""
        self.get(name)
        saying = (path for path, content in self._contents.items() if content.current is not None)
        path = next(saying, None) or self._path_for_new()
        with self._changed(path) as content:
            content.current = name
        return path

    def _path_for_new(self) -> Path:
        return next((path for path in self.paths if path.exists()), self.paths[-1])

    @contextlib.contextmanager
    def _changed(self, path: Path) -> Iterator[_Content]:
        """Yields the file's current content for changes, then writes it back as a whole. Holds a lock meanwhile."""
        # A symbolic link, for example into a folder of dotfiles, must stay a link.
        target = path.resolve()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                content = _read(target)
                yield content
                _write(target, content)
                self._contents[path] = content
            finally:
                os.close(folder)
        except OSError as error:
            raise ContextFileError(f"can't write {path}: {error.strerror}") from None
        except UnicodeEncodeError:
            raise ContextFileError(f"can't write {path}: what was given is no UTF-8") from None


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ContextFileError(f"{name!r} is no name for a context: letters, digits, '.', '_' and '-' are")


def _check_environment(environment: str | None) -> None:
    if environment is not None and not _ENVIRONMENT.fullmatch(environment):
        raise ContextFileError(
            f"{environment!r} is no name for an environment: letters, digits, '_' and '-' are; "
            "the dot stands between it and the group"
        )


def _read(path: Path) -> _Content:
    """Returns the file's content; empty content if the file does not exist."""
    try:
        with path.open("rb") as stream:
            data = tomllib.load(stream)
    except FileNotFoundError:
        return _Content()
    except OSError as error:
        raise ContextFileError(f"can't read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ContextFileError(f"{path} is no TOML: {error}; mend it or remove it") from None
    try:
        contexts = {name: _context(name, table) for name, table in _table(data.pop("contexts", {}), "contexts").items()}
        current = data.pop("current", None)
        _only(data, set(), "the file")
        return _Content(_text(current, "current") if current is not None else None, contexts)
    except ContextFileError as error:
        raise ContextFileError(f"{path}: {error}; mend it or remove it") from None


def _context(name: str, value: Any) -> Context:
    where = f"contexts.{name}"
    _check_name(name)
    table = _table(value, where)
    _only(table, _KEYS, where)
    if not table.get("bootstrap_server"):
        raise ContextFileError(f"{where} has no bootstrap_server")
    environment = table.get("environment")
    if environment is not None:
        _check_environment(_text(environment, f"{where}.environment"))
    properties = _table(table.get("properties", {}), f"{where}.properties")
    return Context(
        name,
        _text(table["bootstrap_server"], f"{where}.bootstrap_server"),
        environment,
        {key: _text(text, f"{where}.properties.{key}") for key, text in properties.items()},
    )


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ContextFileError(f"{where} is no table")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ContextFileError(f"{where} is no text")
    return value


def _only(table: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise ContextFileError(f"{where} has a key that means nothing: {unknown[0]}")


def _write(path: Path, content: _Content) -> None:
    """Replaces the file atomically. Only its owner may read it, since it may contain passwords."""
    lines = ["# Written by `klamm context`, which keeps no comments."]
    if content.current is not None:
        lines.append(f"current = {_quoted(content.current)}")
    for name, context in sorted(content.contexts.items()):
        lines += ["", f"[contexts.{_quoted(name)}]", f"bootstrap_server = {_quoted(context.bootstrap_server)}"]
        if context.environment is not None:
            lines.append(f"environment = {_quoted(context.environment)}")
        if context.properties:
            lines += ["", f"[contexts.{_quoted(name)}.properties]"]
            lines += [f"{_quoted(key)} = {_quoted(text)}" for key, text in sorted(context.properties.items())]
    # mkstemp creates the file with mode 0600.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _quoted(text: str) -> str:
    """Returns a basic string of TOML: a JSON string in which DEL is escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
