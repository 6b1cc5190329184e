"""Writes plans to the metadata store, in several transactions if one can't hold all changes, and finds out whether a
transaction of unknown outcome happened.

A plan in parts is safe against other brokers by its first change, the anchor. Each later part requires that the anchor
is as the first part left it, and the transaction of the commit key writes the anchor again. A broker that sweeps parts
deletes the anchor first. So either the sweep fails, or the commit.

Each transaction of a shared store also writes the key `writers/<incarnation>` with a number. So a broker tells its own
transaction from an equal one of another broker, and does not repeat a transaction that happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from klamm.metadata.entries import put_writer, writer_key
from klamm.metadata.metadata_store import (
    Change,
    Commit,
    ConditionFailed,
    MetadataStore,
    MetadataStoreError,
    OutcomeUnknown,
    Plan,
)
from klamm.protocol.types import BrokerId

__all__ = ["PlanWriter"]

_SHORTEST_BACK_OFF_S: Final = 0.001
_DOUBLINGS: Final = 8
_logger = logging.getLogger(__name__)


class _Parts(NamedTuple):
    """The changes of a plan that is too large for one transaction."""

    before: list[Sequence[Change]]
    commit: Sequence[Change]
    """The transaction after which the decision is valid. It contains the commit key, if the plan has one."""
    after: list[Sequence[Change]]


class PlanWriter:
    """Writes the plans of one broker, one at a time. It must `observe` every commit that the store's watch delivers."""

    def __init__(self, store: MetadataStore, incarnation: str) -> None:
        self._store = store
        self._incarnation = incarnation
        self._key: Final = writer_key(incarnation)
        self._number = 0
        self._seen = (0, 0)
        """The number of the latest own transaction that the watch delivered, and its revision."""
        limit = store.maximum_operations
        # One operation of each transaction of a shared store writes the writer's own key.
        self.room: Final = limit - 1 if limit is not None and store.is_shared else limit
        """The largest number of changes in a transaction, None without a limit."""

    async def back_off(self, plan: Plan[Any], attempt: int, broker_id: BrokerId) -> None:
        """Waits before a plan in several transactions is made again, so that one of several brokers with changes of the
        same topic completes its change. Brokers wait for different times."""
        keys = {*(change.key for change in plan.changes), *plan.reads}
        if self.room is not None and len(keys) > self.room:
            await asyncio.sleep(_SHORTEST_BACK_OFF_S * 2 ** min(attempt, _DOUBLINGS) * (1 + broker_id % 8))

    def observe(self, commit: Commit) -> None:
        """Notes an own transaction."""
        entry = commit.entries.get(self._key)
        if entry is not None:
            # A transaction whose caller was cancelled may happen after later ones.
            self._seen = max(self._seen, (int(entry.value), entry.mod_revision))

    async def write(self, plan: Plan[Any], conditions: Mapping[str, int]) -> None:
        """Writes the plan's changes if all keys are as in `conditions`, which has all keys of the plan.

        Raises ConditionFailed if the plan must be made again, MetadataStoreError if the store can't write. Then the
        decision has no effect, but parts of it may be in the store.
        """
        if self.room is None or len(conditions) <= self.room:
            await self._transact(conditions, plan.changes)
            return
        required = [key for key in (*plan.reads, plan.commit_key) if key is not None]
        parts = _split(plan, self.room - len(required) - 1)
        known = dict(conditions)
        anchor: Change | None = None
        for part in parts.before:
            revision = await self._transact(_some(known, required, part, anchor), part)
            if anchor is None and plan.commit_key is not None:
                anchor = part[0]
            known.update((change.key, revision) for change in part)
        commit = [*parts.commit, anchor] if anchor is not None else parts.commit
        await self._transact(_some(known, required, commit, None), commit)
        for part in parts.after:
            try:
                await self._transact(_some(known, (), part, None), part)
            except (ConditionFailed, MetadataStoreError) as error:
                _logger.info("what a change of the metadata left over is removed later: %s", error)
                return

    async def _transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        if not self._store.is_shared:
            return await self._store.transact(conditions, changes)
        while True:
            self._number += 1
            try:
                return await self._store.transact(conditions, [*changes, put_writer(self._incarnation, self._number)])
            except OutcomeUnknown as error:
                # The watch has delivered the transaction, if it happened. Otherwise it can't happen any more.
                number, revision = self._seen
                if number == self._number:
                    return revision
                _logger.info("a metadata transaction did not happen, and is repeated: %s", error)


def _split(plan: Plan[Any], size: int) -> _Parts:
    assert size > 0, "a transaction has room for a change next to its conditions"
    if plan.commit_key is None:
        *before, commit = _chunks(plan.changes, size)
        return _Parts(before, commit, [])
    index = next(index for index, change in enumerate(plan.changes) if change.key == plan.commit_key)
    chunks = list(_chunks(plan.changes[:index], size))
    last = chunks.pop() if chunks else ()
    room = size - len(last)
    after = plan.changes[index + 1 :]
    return _Parts(chunks, [*last, plan.changes[index], *after[:room]], list(_chunks(after[room:], size)))


def _chunks(changes: Sequence[Change], size: int) -> Iterator[Sequence[Change]]:
    for start in range(0, len(changes), size):
        yield changes[start : start + size]


def _some(
    known: Mapping[str, int], required: Sequence[str], changes: Sequence[Change], anchor: Change | None
) -> dict[str, int]:
    keys = [*required, *(change.key for change in changes)]
    if anchor is not None:
        keys.append(anchor.key)
    return {key: known[key] for key in keys}
