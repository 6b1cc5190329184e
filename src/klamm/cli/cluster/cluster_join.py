"""`klamm cluster join`: makes a single broker the first broker of a cluster, with its data directory as it is.

The metadata of the single broker are copied to an unused prefix of etcd; its logs are not touched. An interrupted join
leaves one of these states, in this order:

1. The prefix has a part of the metadata, which no broker uses. The single broker can start, and the join be repeated.
2. `meta.properties` names the store as well. Nothing but the repeated join accepts the directory.
3. The store is complete. The repeated join sets `metadata.sqlite` aside, and the broker can start with the store.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.cli.cluster.metadata_dump import SESSION_TIMEOUT_S
from klamm.errors import KlammError
from klamm.metadata.brokers import latest_run
from klamm.metadata.etcd.opening import open_etcd_store
from klamm.metadata.metadata_version import METADATA_VERSION
from klamm.metadata.offline import read_commit
from klamm.metadata.store_fill import StoreFill, image_of
from klamm.protocol.types import BrokerId
from klamm.storage.atomic_file import sync_directory
from klamm.storage.directory.file_lock import FileLock
from klamm.storage.directory.meta_properties import MetaProperties
from klamm.storage.directory.metadata_files import METADATA_FILE
from klamm.storage.directory.worker_directories import WORKERS_FOLDER

if TYPE_CHECKING:
    from klamm.metadata.etcd.etcd_store import EtcdStore

__all__ = ["JoinRefused", "join", "run"]

_JOINED_SUFFIX: Final = ".joined"
"""The suffix that the file of the single broker's metadata gets, so that the directory can't start alone any more."""


class JoinRefused(KlammError):
    """The data directory can't join in its current state; nothing was changed."""


class _Single(NamedTuple):
    """A single broker that does not run."""

    properties: MetaProperties
    entries: dict[str, bytes]


def run(arguments: argparse.Namespace) -> int:
    """Joins and prints how to start the broker. Returns 0.

    Raises JoinRefused, StoreNotEmpty, MetadataStoreError, DataDirectoryInUse, InconsistentDataDirectory, OSError.
    """
    directory: Path = arguments.data_dir
    properties = join(directory, arguments.metadata)
    print(
        f"{directory} belongs to broker {properties.node_id} of the cluster {properties.cluster_id} now, whose "
        f"metadata is in etcd\n"
        f"the single broker's metadata is kept as {METADATA_FILE}{_JOINED_SUFFIX}\n"
        f"start it: klamm serve --data-dir {shlex.quote(str(directory))} --metadata {shlex.quote(arguments.metadata)}"
    )
    return 0


def join(directory: Path, url: str, after_step: Callable[[str], None] = lambda _: None) -> MetaProperties:
    """Copies the metadata to the store, and gives the directory to it. Returns the directory's new properties.

    `after_step` is called with the name of each step that is done: copied, recorded, completed, sealed. Raises the
    errors of `run`.
    """
    _check_folder(directory)
    lock = FileLock(directory)
    try:
        single = _read_single(directory)
        properties = asyncio.run(_fill(directory, single, url, after_step))
        metadata = directory / METADATA_FILE
        metadata.rename(metadata.with_name(METADATA_FILE + _JOINED_SUFFIX))
        sync_directory(directory)
        after_step("sealed")
        return properties
    finally:
        lock.release()


async def _fill(directory: Path, single: _Single, url: str, after_step: Callable[[str], None]) -> MetaProperties:
    store = await open_etcd_store(url, session_timeout_s=SESSION_TIMEOUT_S)
    try:
        begun = single.properties.store
        if begun is not None and begun[:2] != store.identity[:2]:
            raise JoinRefused(
                f"{directory} has begun to join the etcd cluster {begun[0]} with the prefix {begun[1]!r}: name this "
                f"store with --metadata. If it is lost for good, and no broker has used it, remove the lines that "
                f"begin with klamm.store. from meta.properties: then the single broker can start again"
            )
        fill = await StoreFill.open(store, single.entries)
        if not (begun is not None and fill.has_finished):
            await fill.prepare()
            after_step("copied")
            _record(directory, single.properties, store)
            after_step("recorded")
            await fill.finish()
        after_step("completed")
        # The revision is that of the complete store or a later one: so an older state of it is refused from now on.
        return _record(directory, single.properties, store)
    finally:
        await store.close()


def _record(directory: Path, properties: MetaProperties, store: EtcdStore) -> MetaProperties:
    identity = store.identity
    recorded = properties._replace(store=(identity.cluster_id, identity.prefix, identity.revision))
    recorded.write(directory)
    sync_directory(directory)
    return recorded


def _check_folder(directory: Path) -> None:
    if (directory / METADATA_FILE).exists():
        if (directory / WORKERS_FOLDER).exists():
            raise JoinRefused(
                f"some partitions are in {directory / WORKERS_FOLDER}: start a single broker (klamm serve --data-dir "
                f"{directory}), which takes them over, stop it, and try again"
            )
        return
    properties = MetaProperties.read(directory)
    if properties is not None and properties.store is not None:
        raise JoinRefused(
            f"{directory} belongs to broker {properties.node_id} of a cluster already, with the prefix "
            f"{properties.store[1]!r}: start it with --metadata"
        )
    raise JoinRefused(f"{directory} is not the data directory of a single broker: there is no {METADATA_FILE} in it")


def _read_single(directory: Path) -> _Single:
    content = read_commit(directory / METADATA_FILE)
    entries = {key: entry.value for key, entry in content.entries.items() if entry is not None}
    image = image_of(entries)
    properties = MetaProperties.read(directory)
    if properties is None or not image.cluster_id or image.metadata_version < METADATA_VERSION:
        raise JoinRefused(
            f"no broker of this version of klamm has run on {directory}: start a single broker (klamm serve --data-dir "
            f"{directory}), stop it, and try again"
        )
    if image.cluster_id != properties.cluster_id or set(image.registrations) != {properties.node_id}:
        raise JoinRefused(
            f"{METADATA_FILE} in {directory} has the brokers {sorted(image.registrations)} of the cluster "
            f"{image.cluster_id}, and meta.properties is of broker {properties.node_id} of the cluster "
            f"{properties.cluster_id}: it is not the data directory of a single broker"
        )
    # The directory of a broker of a cluster names its latest run. If the single broker was stopped in order, the first
    # start with the store then knows that no record of this run is missing.
    run = latest_run(image, BrokerId(properties.node_id))
    return _Single(properties._replace(incarnation=run or None), entries)
