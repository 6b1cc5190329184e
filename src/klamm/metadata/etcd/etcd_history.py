"""Finds out whether etcd still has the transactions that a broker has seen.

An etcd that was restored from a backup lacks some. It goes on from there, because leases expire and brokers register,
and soon has the revision that it had before. So the revision alone does not tell.
"""

from __future__ import annotations

from typing import Final

from klamm.metadata.etcd.etcd_client import RANGE, EtcdClient
from klamm.metadata.etcd.etcd_errors import EtcdCallFailed
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import Commit
from klamm.metadata.store_identity import StoreCommit

__all__ = ["find_commit", "latest_of"]

_CONFIGS: Final = "configs/"


def latest_of(commit: Commit) -> StoreCommit | None:
    """Returns the entry that was written last; None if the commit has only removed keys.

    Clients choose the names of configs: such a name may have characters that a line of `meta.properties` can't hold.
    Settings are left out, because each transaction of a broker also writes other keys.
    """
    written = (
        (entry.mod_revision, key)
        for key, entry in commit.entries.items()
        if entry is not None and not key.startswith(_CONFIGS)
    )
    revision, key = max(written, default=(0, ""))
    entry = commit.entries.get(key)
    return None if entry is None else StoreCommit.of(key, entry.value, revision)


def find_commit(client: EtcdClient, prefix: bytes, known: StoreCommit) -> StoreCommit | None:
    """Returns what etcd had under the key of a transaction at its revision, None if it had nothing. Blocks.

    Returns `known` if etcd has compacted that revision, because then it can't tell. Raises MetadataStoreError.
    """
    request = messages.RangeRequest(key=prefix + known.key.encode(), revision=known.revision)
    try:
        answer = client.call(RANGE, request)
    except EtcdCallFailed as error:
        if error.is_compacted:
            return known
        raise
    return next((StoreCommit.of(known.key, each.value, each.mod_revision) for each in answer.kvs), None)
