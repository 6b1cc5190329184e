"""Keeps the data directories of single brokers and of brokers with a shared metadata store apart.

Each kind would take all topics of the other kind for deleted ones, and set their partitions aside.
"""

from __future__ import annotations

from pathlib import Path

from klamm.metadata.store_identity import StoreCommit, StoreIdentity, WrongStore
from klamm.storage.directory.lost_metadata import is_lost
from klamm.storage.directory.meta_properties import MetaProperties
from klamm.storage.directory.metadata_files import METADATA_FILE

__all__ = ["known_store", "record_store", "refuse_cluster_directory"]


def refuse_cluster_directory(directory: Path) -> None:
    """Raises WrongStore if the directory belongs to a broker with a shared metadata store.

    Called by a broker without one. Raises OSError, InconsistentDataDirectory.
    """
    properties = MetaProperties.read(directory)
    if properties is not None and properties.store is not None:
        _refuse_interrupted_join(directory)
        _, prefix, _ = properties.store
        raise WrongStore(
            f"{directory} belongs to broker {properties.node_id} of a cluster whose metadata is in etcd, with the "
            f"prefix {prefix!r}: start it with --metadata etcd://HOST:PORT/{prefix}"
        )


def known_store(directory: Path) -> StoreIdentity | None:
    """Returns the shared metadata store that the directory has used, None for a new directory.

    Raises WrongStore if the directory belongs to a single broker, OSError, InconsistentDataDirectory.
    """
    properties = MetaProperties.read(directory)
    if properties is not None and properties.store is not None:
        _refuse_interrupted_join(directory)
    if not is_lost(directory / METADATA_FILE):
        raise WrongStore(
            f"{directory} belongs to a single broker, whose metadata is in {METADATA_FILE}: start it without "
            f"--metadata, make it the first broker of a cluster with `klamm cluster join`, or give this broker another "
            f"folder with --data-dir"
        )
    if properties is None or properties.store is None:
        return None
    latest = properties.store_commit
    return StoreIdentity(*properties.store, None if latest is None else StoreCommit(*latest))


def _refuse_interrupted_join(directory: Path) -> None:
    """Raises WrongStore if the directory, which names a shared store, still has the metadata of a single broker."""
    if not is_lost(directory / METADATA_FILE):
        raise WrongStore(
            f"{directory} was about to join a cluster, and `klamm cluster join` was interrupted: run that command again"
        )


def record_store(directory: Path, store: StoreIdentity) -> None:
    """Records the store with its highest revision and latest transaction. The broker has registered before.

    Raises OSError.
    """
    properties = MetaProperties.read(directory)
    assert properties is not None, "a registration records the owner of the directory"
    recorded = properties._replace(
        store=(store.cluster_id, store.prefix, store.revision),
        store_commit=store.latest,
    )
    if recorded != properties:
        recorded.write(directory)
