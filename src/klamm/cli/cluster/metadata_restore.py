"""`klamm cluster metadata restore`: fills an unused prefix of etcd from a dump."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from klamm.cli.cluster.metadata_dump import SESSION_TIMEOUT_S
from klamm.metadata.etcd.opening import open_etcd_store
from klamm.metadata.store_dump import Dump, InvalidDump, parse_dump
from klamm.metadata.store_fill import StoreFill, image_of, lasting_entries
from klamm.metadata.store_identity import StoreIdentity

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Restores the dump, and says what the data directories of the brokers need. Returns 0.

    Raises InvalidDump, StoreNotEmpty, MetadataStoreError, OSError.
    """
    try:
        dump = parse_dump(_text(arguments.file).splitlines())
    except UnicodeDecodeError as error:
        raise InvalidDump(f"{arguments.file} is not text: {error}") from None
    image_of(lasting_entries(dump.entries))
    identity = asyncio.run(_fill(arguments.metadata, dump))
    print(
        f"restored {len(lasting_entries(dump.entries))} keys of cluster {dump.cluster} to etcd cluster "
        f"{identity.cluster_id}, prefix {identity.prefix}\n"
        f"The dump is of revision {dump.revision} of {dump.source}. The restored store lacks all later changes.\n"
        f"Each broker refuses to start with the restored store: its meta.properties remembers the store that it has "
        f"used.\n"
        f"If no broker has run since the dump, remove the lines that begin with klamm.store. from the meta.properties "
        f"in the data directory of each broker. Otherwise records can be lost: read 'Dump and restore' in the "
        f"reference of the metadata in etcd first."
    )
    return 0


def _text(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")


async def _fill(url: str, dump: Dump) -> StoreIdentity:
    store = await open_etcd_store(url, session_timeout_s=SESSION_TIMEOUT_S)
    try:
        fill = await StoreFill.open(store, dump.entries)
        await fill.prepare()
        await fill.finish()
        return store.identity
    finally:
        await store.close()
