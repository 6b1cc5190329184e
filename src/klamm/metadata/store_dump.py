"""The text form of a metadata store's content: JSON lines, which a person can read and which restore exact bytes.

    {"format": "klamm-metadata", "version": 1, "source": text, "revision": number, "cluster": text, "keys": number}
    {"key": text, "value": JSON, "create": revision, "modified": revision}

`value` is the decoded value. If its JSON would not give the same bytes again, the line has them too, as `base64`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from klamm.errors import KlammError
from klamm.metadata.entries import CLUSTER_KEY
from klamm.metadata.metadata_store import Commit

__all__ = ["Dump", "InvalidDump", "dump_lines", "parse_dump"]

_FORMAT: Final = "klamm-metadata"
_VERSION: Final = 1
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False).encode
"""The form in which klamm writes values (see `entries`)."""


class InvalidDump(KlammError):
    """The text is not a whole dump of a metadata store, or a later klamm wrote it."""


class Dump(NamedTuple):
    """A parsed dump: every key with the exact bytes of its value, and where they come from."""

    source: str
    revision: int
    cluster: str
    entries: dict[str, bytes]


def dump_lines(content: Commit, source: str) -> Iterator[str]:
    """Yields the lines of a dump, without line ends. `content` is everything at one revision."""
    entries = {key: entry for key, entry in content.entries.items() if entry is not None}
    cluster = entries.get(CLUSTER_KEY)
    yield json.dumps(
        {
            "format": _FORMAT,
            "version": _VERSION,
            "source": source,
            "revision": content.revision,
            "cluster": "" if cluster is None else str(_decoded(cluster.value).get("id", "")),
            "keys": len(entries),
        },
    )
    for key in sorted(entries):
        value, created, modified = entries[key]
        line: dict[str, Any] = {"key": key, "value": _readable(value), "create": created, "modified": modified}
        if not _is_exact(value, line["value"]):
            line["base64"] = base64.b64encode(value).decode("ascii")
        yield json.dumps(line)


def parse_dump(lines: Iterable[str]) -> Dump:
    """Parses a dump. Raises InvalidDump for another text, a part of a dump, and a key that occurs twice."""
    rows = (line for line in lines if line.strip())
    header = _object(next(rows, ""), 1)
    if header.get("format") != _FORMAT:
        raise InvalidDump("line 1 is not the beginning of a dump of `klamm cluster metadata dump`")
    if header.get("version") != _VERSION:
        raise InvalidDump(
            f"the dump has version {header.get('version')}, and this klamm knows {_VERSION}: restore it with the "
            f"version of klamm that wrote it, or a later one"
        )
    entries: dict[str, bytes] = {}
    for number, text in enumerate(rows, 2):
        line = _object(text, number)
        key = line.get("key")
        if not isinstance(key, str) or key in entries:
            raise InvalidDump(f"line {number} has no key, or a key for the second time")
        entries[key] = _value(line, number)
    if len(entries) != header.get("keys"):
        raise InvalidDump(f"the dump has {len(entries)} of {header.get('keys')} keys: a part of it is missing")
    try:
        return Dump(str(header["source"]), int(header["revision"]), str(header["cluster"]), entries)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidDump(f"line 1 is not complete: {error!r}") from None


def _object(text: str, number: int) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError as error:
        raise InvalidDump(f"line {number} is not JSON: {error}") from None
    if not isinstance(line, dict):
        raise InvalidDump(f"line {number} is not a JSON object")
    return line


def _value(line: dict[str, Any], number: int) -> bytes:
    try:
        if "base64" in line:
            return base64.b64decode(line["base64"], validate=True)
        return _encode(line["value"]).encode()
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidDump(f"line {number} has no value that can be restored: {error!r}") from None


def _readable(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value.decode(errors="replace")


def _decoded(value: bytes) -> dict[str, Any]:
    readable = _readable(value)
    return readable if isinstance(readable, dict) else {}


def _is_exact(value: bytes, readable: Any) -> bool:
    try:
        return _encode(readable).encode() == value
    except ValueError:  # no number of JSON, or half of a surrogate pair
        return False
