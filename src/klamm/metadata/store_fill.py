"""Fills an empty metadata store with the entries of another one: for a restore, and for a single broker that joins.

The entries need several transactions, and no broker may start on a part of them. So the key `unfinished` is written
first, and removed in the last transaction, which writes `cluster`. Every broker refuses a store with `unfinished`, also
one of an earlier version, to which the kind is unknown. A fill that was interrupted can be repeated: it removes what
the interrupted one left. All transactions require the `unfinished` of their own fill, so of two fills only one ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

from klamm.errors import KlammError
from klamm.metadata.entries import CLUSTER_KEY, apply, uuid_text
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage
from klamm.metadata.metadata_store import (
    Change,
    Commit,
    ConditionFailed,
    MetadataStore,
    MetadataStoreError,
    OutcomeUnknown,
    Versioned,
)
from klamm.metadata.metadata_version import LEASED_KINDS, UNFINISHED
from klamm.metadata.random_uuid import random_uuid

__all__ = ["StoreFill", "StoreNotEmpty", "image_of", "lasting_entries"]

_KEYS_AT_ONCE: Final = 100
"""Below the limit of etcd (128), with the conditions."""
_BYTES_AT_ONCE: Final = 512 * 1024
"""A third of what etcd accepts in a request. One value can be larger than this."""


class StoreNotEmpty(KlammError):
    """The metadata store has entries already, so it can't be filled."""


def lasting_entries(entries: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the entries without those that belong to the session of a broker."""
    return {key: value for key, value in entries.items() if key.partition("/")[0] not in LEASED_KINDS}


def image_of(entries: Mapping[str, bytes]) -> MetadataImage:
    """Returns the metadata that the entries mean. Raises MetadataStoreError if this klamm can't understand them."""
    try:
        return apply(EMPTY_IMAGE, 1, {key: Versioned(value, 1, 1) for key, value in entries.items()})
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise MetadataStoreError(f"the entries are no metadata of klamm: {error!r}") from error


class StoreFill:
    """One fill of a store: `open`, `prepare`, `finish`.

    An error in between leaves a store that no broker uses, and that another fill can use. If the outcome of the last
    transaction is unknown, `finish` raises, and `has` tells a later run whether it happened.
    """

    def __init__(self, store: MetadataStore, entries: Mapping[str, bytes]) -> None:
        """Takes the entries, with `cluster`. Use `open`."""
        self._store = store
        self._entries = dict(entries)
        self._cluster = Change(CLUSTER_KEY, self._entries.pop(CLUSTER_KEY))
        self._content: dict[str, Versioned] = {}
        self._own = 0
        """The revision at which this fill wrote `unfinished`."""

    @classmethod
    async def open(cls, store: MetadataStore, entries: Mapping[str, bytes]) -> Self:
        """Reads the store. Raises MetadataStoreError."""
        if CLUSTER_KEY not in entries:
            raise MetadataStoreError("the entries have no cluster id: they are not those of a whole metadata store")
        fill = cls(store, lasting_entries(entries))
        await store.watch(fill._show)
        return fill

    @property
    def cluster(self) -> bytes | None:
        """The entry `cluster` of the store; None for an empty store and for one whose fill was interrupted."""
        entry = self._content.get(CLUSTER_KEY)
        return None if entry is None else entry.value

    @property
    def has_finished(self) -> bool:
        """Whether the store has the cluster of the entries, so that an earlier fill has finished."""
        return self.cluster == self._cluster.value and UNFINISHED not in self._content

    async def prepare(self) -> None:
        """Writes all entries but `cluster`.

        Raises StoreNotEmpty if the store has other entries, or another fill works on it, and MetadataStoreError.
        """
        marker = self._content.get(UNFINISHED)
        if self.cluster is not None or (self._content and marker is None):
            some = ", ".join(sorted(self._content)[:3])
            raise StoreNotEmpty(
                f"the metadata store has {len(self._content)} keys already ({some}): nothing was changed. Name an "
                f"unused prefix"
            )
        value = json.dumps({"id": uuid_text(random_uuid())}).encode()
        conditions = {UNFINISHED: 0 if marker is None else marker.mod_revision, CLUSTER_KEY: 0}
        self._own = await self._transact(conditions, [Change(UNFINISHED, value)])
        left = [Change(key, None) for key in sorted(self._content) if key != UNFINISHED]
        for changes in _chunks(left):
            await self._transact({UNFINISHED: self._own}, changes)
        for changes in _chunks(Change(key, value) for key, value in sorted(self._entries.items())):
            await self._transact({UNFINISHED: self._own, **{change.key: 0 for change in changes}}, changes)

    async def finish(self) -> None:
        """Writes `cluster`: from now on brokers can use the store. Raises StoreNotEmpty, MetadataStoreError."""
        changes = [Change(UNFINISHED, None), self._cluster]
        try:
            await self._transact({UNFINISHED: self._own, CLUSTER_KEY: 0}, changes)
        except OutcomeUnknown:
            if not self.has_finished:
                raise

    async def _transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        try:
            return await self._store.transact(conditions, changes)
        except ConditionFailed:
            raise StoreNotEmpty(
                "another command or broker has written to the metadata store meanwhile: look what uses this prefix"
            ) from None

    def _show(self, commit: Commit) -> None:
        for key, entry in commit.entries.items():
            if entry is None:
                self._content.pop(key, None)
            else:
                self._content[key] = entry


def _chunks(changes: Iterable[Change]) -> Iterator[list[Change]]:
    chunk: list[Change] = []
    size = 0
    for change in changes:
        length = len(change.key) + len(change.value or b"")
        if chunk and (len(chunk) == _KEYS_AT_ONCE or size + length > _BYTES_AT_ONCE):
            yield chunk
            chunk, size = [], 0
        chunk.append(change)
        size += length
    if chunk:
        yield chunk
