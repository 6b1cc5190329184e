"""Detects a data directory without klamm's metadata, because every topic in it would look like a deleted one."""

from __future__ import annotations

from pathlib import Path

from klamm.errors import KlammError
from klamm.storage.directory.meta_properties import META_PROPERTIES_FILE, MetaProperties
from klamm.storage.directory.metadata_files import METADATA_FILE
from klamm.storage.directory.worker_directories import existing_workers, worker_directory
from klamm.storage.log_files import parse_directory_name

__all__ = ["MetadataLost", "is_lost", "refuse_lost_metadata"]


class MetadataLost(KlammError):
    """The directory belongs to a cluster and holds partitions, but the metadata of their topics is missing."""


def is_lost(path: Path) -> bool:
    """Returns whether the metadata file is missing or empty. Raises OSError."""
    return not path.exists() or not path.stat().st_size


def refuse_lost_metadata(directory: Path, *, is_shared: bool = False) -> None:
    """Raises `MetadataLost` for a directory with a cluster id and partitions, also of other workers. Called if no
    metadata was found, in the directory or, if `is_shared`, in the store of several brokers.

    A first start writes the metadata before `meta.properties`, so a directory with this file once had metadata. Raises
    OSError, InconsistentDataDirectory.
    """
    properties = MetaProperties.read(directory)
    if properties is None:
        return
    partitions = sum(
        parse_directory_name(path.name) is not None and path.is_dir()
        for worker in existing_workers(directory)
        for path in worker_directory(directory, worker).iterdir()
    )
    if partitions and is_shared:
        raise MetadataLost(
            f"the metadata store is empty, but {directory} holds {partitions} partition(s) of the cluster "
            f"{properties.cluster_id}: without their metadata their topics are unknown, and clients would make them "
            f"again from offset 0. Nothing was changed. Check the address and the prefix of the metadata store"
        )
    if partitions:
        path = directory / METADATA_FILE
        raise MetadataLost(
            f"{path} is {'empty' if path.exists() else 'missing'}, but {directory} holds {partitions} partition(s) of "
            f"the cluster {properties.cluster_id}: without it their topics are unknown, and clients would make them "
            f"again from offset 0. Nothing was changed. Bring {METADATA_FILE} back from a copy and start again. "
            f"Without a copy, remove {META_PROPERTIES_FILE}: the broker then begins a new cluster and keeps the old "
            f"partitions aside, in folders that end in -stray"
        )
