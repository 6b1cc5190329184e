"""The identity of a shared metadata store, which a data directory remembers, so that a broker never starts on another
store, or on an older state of its own store.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from klamm.errors import KlammError

__all__ = ["StoreCommit", "StoreIdentity", "WrongStore", "check_commit", "check_creation", "check_identity"]


_DIGEST_LENGTH: Final = 16


class WrongStore(KlammError):
    """The metadata store is not the one that the data directory has used, or it is older."""


class StoreCommit(NamedTuple):
    """One of the keys that a transaction wrote, with its revision and a digest of the value."""

    revision: int
    digest: str
    key: str

    @classmethod
    def of(cls, key: str, value: bytes, revision: int) -> StoreCommit:
        """Describes a key that was written at the revision."""
        return cls(revision, hashlib.sha256(value).hexdigest()[:_DIGEST_LENGTH], key)


class StoreIdentity(NamedTuple):
    """The cluster id of etcd in hexadecimal, the prefix of the keys, the highest revision that was seen, and the latest
    transaction below the prefix that was seen."""

    cluster_id: str
    prefix: str
    revision: int
    latest: StoreCommit | None = None


def check_identity(known: StoreIdentity | None, found: StoreIdentity) -> None:
    """Compares the store with what a data directory remembers (None: it has used no such store).

    Raises WrongStore.
    """
    if known is None:
        return
    if known.cluster_id != found.cluster_id:
        raise WrongStore(
            f"the data directory has used the etcd cluster {known.cluster_id}, and the metadata store is the etcd "
            f"cluster {found.cluster_id}: nothing was changed. Check --metadata. If etcd was restored from a "
            f"backup into a new cluster, this broker can't tell whether the backup has everything"
        )
    if known.prefix != found.prefix:
        raise WrongStore(
            f"the data directory has used the prefix {known.prefix!r} of the metadata store, and not {found.prefix!r}: "
            f"nothing was changed. Check --metadata"
        )
    if known.revision > found.revision:
        raise WrongStore(
            f"the metadata store is at revision {found.revision}, and the data directory has seen revision "
            f"{known.revision}: nothing was changed. etcd was restored from a backup, which lacks the changes since. "
            f"Restore with --bump-revision and --mark-compacted if the loss of these changes is accepted"
        )


def check_commit(known: StoreIdentity, found: StoreCommit | None) -> None:
    """Compares the key of the latest known transaction with what the store had under that key at that revision.

    A restored store goes on with other transactions, and soon has a higher revision than before. Raises WrongStore.
    """
    latest = known.latest
    if latest is not None and found != latest:
        raise WrongStore(
            f"the metadata store had another value of {latest.key!r} at revision {latest.revision} than the data "
            "directory has seen: nothing was changed. etcd was restored from a backup, which lacks changes, and has "
            "gone on from there. The reference of the metadata in etcd tells how to accept a restored store"
        )


def check_creation(known: StoreIdentity | None, created: int) -> None:
    """Compares the revision at which the store's cluster was created (0: it has none) with what a data directory
    remembers.

    A broker records a revision only after it has found the cluster. A cluster that is younger was filled from a dump,
    or created again, in the same etcd and with the same prefix. Raises WrongStore.
    """
    if known is not None and created > known.revision:
        raise WrongStore(
            f"the metadata store was filled at revision {created}, after the data directory has seen revision "
            f"{known.revision}: nothing was changed. It was restored from a dump, which may lack changes, or created "
            f"again. The reference of the metadata in etcd tells how to accept a restored store"
        )
