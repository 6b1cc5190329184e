"""The URL of a metadata store in etcd.

    etcd://host:2379,host2:2379/prefix
    etcds://user@host:2379,host2:2379/prefix?ca=FILE&cert=FILE&key=FILE&password-file=FILE

`etcds` is etcd with TLS. The password is in a file and not in the URL, because every user of a machine sees the
arguments of its processes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from klamm.errors import KlammError

__all__ = ["EtcdAddress", "InvalidEtcdUrl"]

_DEFAULT_PORT: Final = 2379
_DEFAULT_PREFIX: Final = "klamm"
_TLS_PARAMETERS: Final = frozenset({"ca", "cert", "key"})
_PARAMETERS: Final = _TLS_PARAMETERS | {"password-file"}
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:@/\s]+)(?::(\d{1,5}))?")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class InvalidEtcdUrl(KlammError):
    """The URL of the metadata store can't be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdAddress:
    """Where the store is, and how to connect to it. Files are read when the store is opened."""

    endpoints: tuple[str, ...]
    """As `host:port`, one for each member of etcd that is named."""
    prefix: str
    """Keys begin with a slash, the prefix and another slash."""
    is_encrypted: bool = False
    ca_file: Path | None = None
    """The certificates to trust; None: those of the system."""
    certificate_file: Path | None = None
    key_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None

    @property
    def key_prefix(self) -> bytes:
        """The first bytes of every key of the store."""
        return f"/{self.prefix}/".encode()

    def __str__(self) -> str:
        return f"{'etcds' if self.is_encrypted else 'etcd'}://{','.join(self.endpoints)}/{self.prefix}"

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parses a URL. Raises InvalidEtcdUrl."""
        parts = urlsplit(url)
        if parts.scheme not in ("etcd", "etcds"):
            raise InvalidEtcdUrl(f"{url!r} is not the URL of a metadata store: it begins with etcd:// or etcds://")
        user, _, hosts = parts.netloc.rpartition("@")
        if ":" in user:
            raise InvalidEtcdUrl("the URL of the metadata store has a password: write it to a file, and name the file")
        parameters = _parameters(parts.query)
        is_encrypted = parts.scheme == "etcds"
        if not is_encrypted and (wrong := sorted(_TLS_PARAMETERS & parameters.keys())):
            raise InvalidEtcdUrl(f"{wrong[0]} in the URL of the metadata store needs etcds:// instead of etcd://")
        if ("cert" in parameters) != ("key" in parameters):
            raise InvalidEtcdUrl("the URL of the metadata store needs cert and key together")
        if bool(user) != ("password-file" in parameters):
            raise InvalidEtcdUrl("the URL of the metadata store needs a user and password-file together: etcd://USER@…")
        return cls(
            endpoints=tuple(_endpoint(host, url) for host in hosts.split(",")),
            prefix=_prefix(parts.path),
            is_encrypted=is_encrypted,
            ca_file=parameters.get("ca"),
            certificate_file=parameters.get("cert"),
            key_file=parameters.get("key"),
            user=unquote(user) or None,
            password_file=parameters.get("password-file"),
        )


def _parameters(query: str) -> dict[str, Path]:
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in parameters.items():
        if name not in _PARAMETERS or not value:
            raise InvalidEtcdUrl(
                f"the URL of the metadata store has {name}={value}; it takes {', '.join(sorted(_PARAMETERS))}"
            )
    return {name: Path(value) for name, value in parameters.items()}


def _endpoint(host: str, url: str) -> str:
    match = _HOST.fullmatch(host)
    port = int(match[2] or _DEFAULT_PORT) if match else 0
    if match is None or not 0 < port < 2**16:
        raise InvalidEtcdUrl(f"{url!r} has {host!r} where HOST:PORT is expected")
    return f"{match[1]}:{port}"


def _prefix(path: str) -> str:
    prefix = path.strip("/") or _DEFAULT_PREFIX
    if not all(_SEGMENT.fullmatch(segment) for segment in prefix.split("/")):
        raise InvalidEtcdUrl(
            f"the prefix {prefix!r} in the URL of the metadata store may have letters, digits, '.', '_', '-' and '/'; "
            f"no part begins with '.'"
        )
    return prefix
