"""Several metadata services on one store in memory, and a store whose transactions fail in known ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.memory_store import MemoryMetadata, MemoryStore
from klamm.metadata.metadata_store import Change, Commit, MetadataStoreError, OutcomeUnknown
from klamm.metadata.service import MetadataService
from klamm.protocol.types import BrokerId

__all__ = ["ENDPOINTS", "LateStore", "UnreliableStore", "brokers", "connect"]

ENDPOINTS: Mapping[str, tuple[str, int]] = {"PLAINTEXT": ("h", 9092)}


class UnreliableStore:
    """A session whose transactions may have an unknown outcome, or fail, as its test demands."""

    is_shared = True

    def __init__(self, store: MemoryStore) -> None:
        self.inner = store
        self.maximum_operations = store.maximum_operations
        self.transactions = 0
        self.held_at: dict[int, asyncio.Event] = {}
        """The transactions that wait for an event before they begin, by number."""
        self.held = asyncio.Event()
        """Set when a transaction waits."""
        self.random: Random | None = None
        """With a generator, the outcome of half of the transactions is unknown; half of these happened."""
        self.fails_at: int | None = None
        """The number of the first transaction that fails, as do all later ones."""

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """See `MetadataStore.watch`."""
        await self.inner.watch(on_commit, prepare=prepare)

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """See `MetadataStore.transact`."""
        self.transactions += 1
        if self.transactions in self.held_at:
            self.held.set()
            await self.held_at[self.transactions].wait()
        if self.fails_at is not None and self.transactions >= self.fails_at:
            raise MetadataStoreError("the store is away")
        if self.random is not None and self.random.random() < 0.5:
            if self.random.random() < 0.5:
                await self.inner.transact(conditions, changes)
            raise OutcomeUnknown("the connection was lost")
        return await self.inner.transact(conditions, changes)

    async def catch_up(self) -> None:
        """See `MetadataStore.catch_up`."""
        await self.inner.catch_up()

    def valid_until(self) -> float:
        """See `MetadataStore.valid_until`."""
        return self.inner.valid_until()

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """See `MetadataStore.on_session_lost`."""
        self.inner.on_session_lost(callback)

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        await self.inner.close()


class LateStore(UnreliableStore):
    """A session that delivers the commits of others as late as a store may: before its own transaction returns, and
    when its broker wants to catch up."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._kept: list[Commit] = []
        self._deliver: Callable[[Commit], None] = self._kept.append

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """See `MetadataStore.watch`."""

        def deliver(commit: Commit) -> None:
            if prepare is not None:
                prepare(commit)
            on_commit(commit)

        await self.inner.watch(self._kept.append)
        self._deliver = deliver
        self._deliver_kept()

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """See `MetadataStore.transact`."""
        try:
            return await super().transact(conditions, changes)
        finally:
            self._deliver_kept()

    async def catch_up(self) -> None:
        """See `MetadataStore.catch_up`."""
        await super().catch_up()
        self._deliver_kept()

    def _deliver_kept(self) -> None:
        while self._kept:
            self._deliver(self._kept.pop(0))


async def connect(metadata: MemoryMetadata, broker_id: int) -> tuple[MetadataService, UnreliableStore]:
    """Returns the service of a broker that is not started yet, and its store."""
    store = UnreliableStore(metadata.connect())
    return await MetadataService.open(store, BrokerConfig(node_id=BrokerId(broker_id))), store


@asynccontextmanager
async def brokers(*ids: int, maximum_operations: int | None = None) -> AsyncIterator[list[MetadataService]]:
    """Starts brokers with these ids on one store."""
    metadata = MemoryMetadata(maximum_operations=maximum_operations)
    services = [(await connect(metadata, broker_id))[0] for broker_id in ids]
    for service in services:
        await service.start_broker(ENDPOINTS)
    try:
        yield services
    finally:
        for service in services:
            await service.close()
