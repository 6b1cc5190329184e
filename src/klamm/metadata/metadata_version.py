"""The version of the metadata: which kinds of entries and fields the brokers of a cluster may write.

The store holds it under the key `features`. A program refuses a store of a higher version, because it would serve
metadata that it does not understand. So a kind of entry or a field that earlier programs do not know gets a new
version here, and no broker writes it before the store has this version: the store gets it once all brokers know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.metadata.metadata_store import MetadataStoreError

__all__ = [
    "FIRST_VERSION_WITH_FOLLOWERS",
    "HOW_TO_RAISE",
    "INTRODUCED",
    "LEASED_KINDS",
    "LOWEST_OF_CLUSTERS",
    "METADATA_VERSION",
    "METADATA_VERSION_FEATURE",
    "NewerMetadata",
    "UNFINISHED",
    "UnfinishedMetadata",
    "check_kind",
    "check_version",
]

METADATA_VERSION: Final = 2
"""The version of this program. A new store gets it. The registration of a single broker raises an older store to it,
and so does the start of workers. A store in etcd is raised on request, once all brokers know the version
(`version_changes`)."""

METADATA_VERSION_FEATURE: Final = "klamm.metadata.version"
"""The name under which clients see the version as a feature of the cluster (KIP-584). Kafka's `metadata.version` is
another number, from which tools derive the version of Kafka."""

LOWEST_OF_CLUSTERS: Final = 1
"""The lowest version of a store that several brokers use: their first start raises it from 0."""

HOW_TO_RAISE: Final = "`klamm cluster metadata version --raise` raises it"
"""The end of a message about a version that is too low."""

LEASED_KINDS: Final = frozenset({"live", "writers"})
"""The kinds of entries that belong to the session of a broker, and are never copied to another store."""

UNFINISHED: Final = "unfinished"
"""The key of a store that a join or a restore has not filled yet (`store_fill`). No broker may use such a store."""

FIRST_VERSION_WITH_FOLLOWERS: Final = 2
"""The first version whose partitions may have several replicas."""

INTRODUCED: Final[Mapping[str, int]] = {
    "cluster": 0,
    "producer-ids": 0,
    "brokers": 0,
    "topics": 0,
    "partitions": 0,
    "configs": 0,
    "features": 1,
    "live": 1,
    "writers": 1,
    "broker-ids": 1,
    "brokers.endpoints": 1,
    "brokers.metadataVersion": 1,
    "brokers.incarnation": 1,
    "topics.partitions": 1,
    "partitions.partitionEpoch": 2,
    "partitions.elr": 2,
    "partitions.lastKnownLeader": 2,
    "partitions.adding": 2,
    "partitions.removing": 2,
    "partitions.recovering": 2,
    "live.stopping": 2,
}
"""The version that introduced each kind of entry (the first part of its key), and each field that is younger than its
kind. Version 0 has no entry `features`.

Two fields are younger than version 1, and are written to stores of version 1 all the same. Programs that do not know
them ignore them. With `brokers.metadataVersion` brokers tell which version they know. Earlier programs do not write
`brokers.incarnation`; the next start then takes their stop for an unclean one."""


class NewerMetadata(MetadataStoreError):
    """The metadata were written by a later version of klamm."""


class UnfinishedMetadata(MetadataStoreError):
    """A join or a restore was interrupted, or runs now: the store has only a part of the metadata."""


def check_version(version: int) -> None:
    """Raises NewerMetadata if this program does not know the version."""
    if version > METADATA_VERSION:
        raise NewerMetadata(
            f"the metadata store has metadata version {version}, and this klamm knows versions up to "
            f"{METADATA_VERSION}: start the broker with the version of klamm that wrote the store, or a later one"
        )


def check_kind(kind: str) -> None:
    """Raises NewerMetadata if this program does not know the kind of entry, and UnfinishedMetadata."""
    if kind == UNFINISHED:
        raise UnfinishedMetadata(
            "the metadata store is not complete: `klamm cluster join` or `klamm cluster metadata restore` runs now, or "
            "it was interrupted. Run that command again"
        )
    if kind not in INTRODUCED:
        raise NewerMetadata(
            f"the metadata store has an entry of the unknown kind {kind!r}, and this klamm knows metadata versions up "
            f"to {METADATA_VERSION}: start the broker with the version of klamm that wrote the store, or a later one"
        )
