"""`klamm cluster metadata dump`: writes everything in a metadata store as JSON lines."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from klamm.cli.errors import UsageError
from klamm.metadata.etcd.opening import open_etcd_store
from klamm.metadata.metadata_store import Commit, MetadataStoreError
from klamm.metadata.offline import read_commit
from klamm.metadata.store_dump import dump_lines
from klamm.storage.directory.metadata_files import METADATA_FILE

__all__ = ["SESSION_TIMEOUT_S", "run"]

SESSION_TIMEOUT_S: Final = 9.0
"""Kafka's default of `broker.session.timeout.ms`. The session holds no keys."""


def run(arguments: argparse.Namespace) -> int:
    """Writes the dump. The file appears whole or not at all. Returns 0.

    Raises UsageError, MetadataStoreError, OSError; FileExistsError for a file that exists.
    """
    if (arguments.metadata is None) == (arguments.data_dir is None):
        raise UsageError("name the store: --metadata etcd://... or --data-dir DIR, one of them")
    if arguments.metadata is not None:
        content, source = asyncio.run(_read(arguments.metadata))
    else:
        path: Path = arguments.data_dir / METADATA_FILE
        content, source = read_commit(path), str(path)
    if not content.entries:
        raise MetadataStoreError(f"the metadata store {source} is empty: check the address and the prefix")
    text = "".join(f"{line}\n" for line in dump_lines(content, source))
    if arguments.file == "-":
        sys.stdout.write(text)
    else:
        _write(Path(arguments.file), text)
        print(f"{arguments.file}: {len(content.entries)} keys at revision {content.revision}")
    return 0


async def _read(url: str) -> tuple[Commit, str]:
    store = await open_etcd_store(url, session_timeout_s=SESSION_TIMEOUT_S)
    commits: list[Commit] = []
    try:
        await store.watch(commits.append)
        identity = store.identity
    finally:
        await store.close()
    return commits[0], f"etcd cluster {identity.cluster_id}, prefix {identity.prefix}"


def _write(path: Path, text: str) -> None:
    """Creates the file, which only its owner may read: configs of topics and brokers are in it."""
    temporary = path.with_name(f"{path.name}.unfinished")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(temporary, path)  # unlike a rename, it replaces no file
    finally:
        temporary.unlink()
