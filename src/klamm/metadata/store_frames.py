"""What a shared metadata store and its clients send each other over a local socket: frames of JSON.

A frame is the length of its body, 4 bytes in network order, and the body. Values of keys are base64. Client to server:

    {"watch": number}                                                   asks for the content, and later commits
    {"transact": number, "conditions": {key: revision}, "changes": [[key, value or null, is leased], …]}
    {"reach": number}           asks for an answer, which comes after all commits that were made before
    {"end": true}               asks for the end of the session: the server removes its leased keys and hangs up

Server to client:

    {"content": number, "revision": …, "entries": {key: [value, create revision, mod revision], …}}
    {"commit": revision, "entries": {key: [value, create revision, mod revision] or null, …}}
    {"done": number, "revision": …}  or  {"done": number, "condition": text}  or  {"done": number, "error": text}

Both sides are processes of one version of klamm: a worker of another version ends at once. So the format has no
versions.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Final

from klamm.metadata.metadata_store import Change, Commit, Versioned

__all__ = [
    "LENGTH",
    "MAXIMUM_BYTES",
    "decode",
    "decode_changes",
    "decode_commit",
    "encode",
    "encode_changes",
    "entries_of",
]

LENGTH: Final = Struct(">I")
MAXIMUM_BYTES: Final = 256 * 1024 * 1024
"""The largest body. The content of a store with a million partitions has less."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Returns the frame of a message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    assert len(body) <= MAXIMUM_BYTES, "the store is far smaller"
    return LENGTH.pack(len(body)) + body


def decode(body: bytes) -> dict[str, Any]:
    """Returns the message of a frame's body. Raises ValueError."""
    message = json.loads(body)
    if not isinstance(message, dict):
        raise ValueError("not a message of a metadata store")
    return message


def encode_changes(changes: Sequence[Change]) -> list[tuple[str, str | None, bool]]:
    """Returns changes as JSON."""
    return [(key, _text(value), is_leased) for key, value, is_leased in changes]


def decode_changes(changes: Sequence[Sequence[Any]]) -> list[Change]:
    """Returns the changes of `encode_changes`."""
    return [Change(key, None if text is None else b64decode(text), is_leased) for key, text, is_leased in changes]


def entries_of(entries: Mapping[str, Versioned | None]) -> dict[str, tuple[str, int, int] | None]:
    """Returns the entries of a commit as JSON."""
    return {
        key: None if entry is None else (b64encode(entry.value).decode(), entry.create_revision, entry.mod_revision)
        for key, entry in entries.items()
    }


def decode_commit(revision: int, entries: Mapping[str, Sequence[Any] | None]) -> Commit:
    """Returns the commit of `entries_of`."""
    return Commit(
        revision,
        {
            key: None if entry is None else Versioned(b64decode(entry[0]), entry[1], entry[2])
            for key, entry in entries.items()
        },
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()
