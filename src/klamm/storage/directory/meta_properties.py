"""`meta.properties`: the cluster and the node that own a data directory, and the directory's id.

Source: `metadata/properties/MetaProperties.java` of Apache Kafka 4.3 (version 1, KIP-631 and KIP-858).
"""

from __future__ import annotations

import base64
import uuid
from pathlib import Path
from typing import Final, NamedTuple

from klamm.errors import KlammError
from klamm.storage.atomic_file import write_atomically

__all__ = ["InconsistentDataDirectory", "META_PROPERTIES_FILE", "MetaProperties"]

META_PROPERTIES_FILE: Final = "meta.properties"
_VERSION: Final = "1"
_INCARNATION: Final = "klamm.incarnation"
_STORE_COMMIT: Final = "klamm.store.commit"
_STORE: Final = ("klamm.store.cluster.id", "klamm.store.prefix", "klamm.store.revision")


class InconsistentDataDirectory(KlammError):
    """The folder belongs to another cluster or broker, or its file can't be parsed."""


class MetaProperties(NamedTuple):
    """The content of the file."""

    cluster_id: str
    node_id: int
    directory_id: str | None
    incarnation: str | None = None
    """The latest run of the broker with this folder, if other brokers share its metadata store. Kafka ignores it."""
    store: tuple[str, str, int] | None = None
    """The metadata store that other brokers share: its own cluster id, the prefix of the keys, and the highest revision
    that was recorded. None for the folder of a single broker. Kafka ignores it."""
    store_commit: tuple[int, str, str] | None = None
    """Revision, digest and key of the latest transaction in that store that was recorded. Kafka ignores it."""

    @classmethod
    def read(cls, directory: Path) -> MetaProperties | None:
        """Returns the folder's properties, None for a new folder.

        Raises `InconsistentDataDirectory` for a file that can't be parsed, OSError.
        """
        path = directory / META_PROPERTIES_FILE
        try:
            text = path.read_text(encoding="latin-1")
        except FileNotFoundError:
            return None
        properties: dict[str, str] = {}
        for line in text.splitlines():
            key, separator, value = line.partition("=")
            if separator and not key.lstrip().startswith(("#", "!")):
                properties[key.strip()] = value.strip()
        if properties.get("version") != _VERSION:
            raise InconsistentDataDirectory(
                f"{path} has version {properties.get('version')!r}, klamm knows {_VERSION}: give the broker another "
                f"folder with --data-dir"
            )
        try:
            return cls(
                properties["cluster.id"],
                int(properties["node.id"]),
                properties.get("directory.id"),
                properties.get(_INCARNATION),
                _store_of(properties),
                _commit_of(properties.get(_STORE_COMMIT)),
            )
        except (KeyError, ValueError) as error:
            raise InconsistentDataDirectory(f"{path} lacks a cluster.id or a node.id that is a number") from error

    @classmethod
    def ensure(
        cls,
        known: MetaProperties | None,
        directory: Path,
        *,
        cluster_id: str,
        node_id: int,
        incarnation: str | None = None,
    ) -> MetaProperties:
        """Writes the file of a new folder, or checks that the existing file matches.

        `incarnation` is written if it is given, and kept otherwise. Raises `InconsistentDataDirectory`, OSError.
        """
        if known is not None:
            if known.cluster_id != cluster_id:
                raise InconsistentDataDirectory(
                    f"{directory} belongs to the cluster {known.cluster_id}, not to {cluster_id}: give the broker the "
                    f"folder of its cluster with --data-dir, or an empty one"
                )
            known.check_node(directory, node_id)
            incarnation = incarnation or known.incarnation
            if known.directory_id is not None and known.incarnation == incarnation:
                return known
        directory_id = known.directory_id if known is not None else None
        if directory_id is None:
            directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        properties = cls(cluster_id, node_id, directory_id, incarnation)
        if known is not None:
            properties = properties._replace(store=known.store, store_commit=known.store_commit)
        properties.write(directory)
        return properties

    def check_node(self, directory: Path, node_id: int) -> None:
        """Raises `InconsistentDataDirectory` if the folder belongs to another broker."""
        if self.node_id != node_id:
            raise InconsistentDataDirectory(
                f"{directory} belongs to the broker with node.id={self.node_id}, not to node.id={node_id}: set that "
                f"node.id, or give the broker another folder with --data-dir"
            )

    def write(self, directory: Path) -> None:
        """Replaces the file of the folder. Raises OSError."""
        properties = {
            "cluster.id": self.cluster_id,
            "version": _VERSION,
            "directory.id": self.directory_id,
            "node.id": self.node_id,
            _INCARNATION: self.incarnation,
            **(dict(zip(_STORE, self.store, strict=True)) if self.store is not None else {}),
            _STORE_COMMIT: None if self.store_commit is None else " ".join(map(str, self.store_commit)),
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items() if value is not None)
        write_atomically(directory / META_PROPERTIES_FILE, text.encode("latin-1"))


def _store_of(properties: dict[str, str]) -> tuple[str, str, int] | None:
    if _STORE[0] not in properties:
        return None
    cluster_id, prefix, revision = (properties[key] for key in _STORE)
    return cluster_id, prefix, int(revision)


def _commit_of(text: str | None) -> tuple[int, str, str] | None:
    if text is None:
        return None
    revision, digest, key = text.split(" ", 2)
    return int(revision), digest, key
