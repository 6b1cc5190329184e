"""Reads and creates the metadata of a stopped broker, for commands that work on a data directory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from klamm.metadata.entries import apply
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage
from klamm.metadata.metadata_store import Change, Commit, MetadataStoreError
from klamm.metadata.sqlite_store import SqliteStore

__all__ = ["create_store", "read_commit", "read_image"]

_UNFINISHED_SUFFIX: Final = ".unfinished"


def read_commit(path: Path) -> Commit:
    """Returns every entry of the store. Raises MetadataStoreError if there is no store, or if a broker has it open."""
    if not path.exists():
        raise MetadataStoreError(f"there is no metadata store {path}")
    return asyncio.run(_read(path))


def read_image(path: Path) -> MetadataImage:
    """Returns the image of the store.

    Raises the errors of `read_commit`, and MetadataStoreError for malformed entries.
    """
    commit = read_commit(path)
    try:
        return apply(EMPTY_IMAGE, commit.revision, commit.entries)
    except (ValueError, KeyError, AssertionError) as error:
        raise MetadataStoreError(f"the metadata store {path} can't be understood: {error}") from error


def create_store(path: Path, changes: Sequence[Change]) -> None:
    """Creates the store with these entries. The file exists with all of them, or not at all.

    Raises MetadataStoreError, OSError; FileExistsError if a store exists.
    """
    if path.exists():
        raise FileExistsError(f"there is a metadata store {path} already")
    unfinished = path.with_name(path.name + _UNFINISHED_SUFFIX)
    unfinished.unlink(missing_ok=True)
    asyncio.run(_create(unfinished, changes))
    os.replace(unfinished, path)


async def _read(path: Path) -> Commit:
    store = await SqliteStore.open(path)
    commits: list[Commit] = []
    try:
        await store.watch(commits.append)
    finally:
        await store.close()
    return commits[0]


async def _create(path: Path, changes: Sequence[Change]) -> None:
    store = await SqliteStore.open(path)
    try:
        await store.transact({}, changes)
    finally:
        await store.close()
