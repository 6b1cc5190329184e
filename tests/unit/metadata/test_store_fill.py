"""Tests that an empty store is filled as a whole, or is not used by any broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Change, Commit, MetadataStoreError
from klamm.metadata.metadata_version import UnfinishedMetadata
from klamm.metadata.service import NewTopic
from klamm.metadata.store_fill import StoreFill, StoreNotEmpty, image_of

CLUSTER = b'{"id":"MkU3OEVBNTcwNTJENDM2Qk"}'
ENTRIES = {
    "cluster": CLUSTER,
    "features": b'{"metadata.version":2}',
    "live/1": b'{"incarnation":"x"}',
    "writers/x": b"1",
    **{f"configs/16/g{number}": b"{}" for number in range(250)},
}


def run(scenario: Callable[[MemoryMetadata], Awaitable[None]]) -> None:
    """Runs a scenario on a new store with the limit of etcd."""

    async def begin() -> None:
        await scenario(MemoryMetadata(maximum_operations=127))

    asyncio.run(begin())


async def content(metadata: MemoryMetadata) -> dict[str, bytes]:
    """Returns all entries."""
    commits: list[Commit] = []
    store = metadata.connect()
    await store.watch(commits.append)
    await store.close()
    return {key: entry.value for key, entry in commits[0].entries.items() if entry is not None}


def test_entries_are_written_and_sessions_are_not() -> None:
    """After the fill the store has all entries except those of sessions; a broker starts with them."""

    async def scenario(metadata: MemoryMetadata) -> None:
        fill = await StoreFill.open(metadata.connect(), ENTRIES)
        await fill.prepare()
        assert not fill.has_finished
        await fill.finish()
        assert fill.has_finished
        assert await content(metadata) == {key: ENTRIES[key] for key in ENTRIES if key[:4] not in ("live", "writ")}
        service, _ = await connect(metadata, 1)
        await service.start_broker(ENDPOINTS)
        await service.ensure_topic(NewTopic("t", partitions=1, replication_factor=1))
        await service.close()

    run(scenario)


def test_interrupted_fill_is_refused_by_brokers_and_repeated() -> None:
    """A broker does not start with a part of the entries. The next fill replaces them."""

    async def scenario(metadata: MemoryMetadata) -> None:
        first = await StoreFill.open(metadata.connect(), {**ENTRIES, "configs/16/first": b"{}"})
        await first.prepare()
        with pytest.raises(UnfinishedMetadata, match="Run that command again"):
            await connect(metadata, 1)
        second = await StoreFill.open(metadata.connect(), ENTRIES)
        await second.prepare()
        with pytest.raises(StoreNotEmpty, match="meanwhile"):
            await first.finish()
        await second.finish()
        assert "configs/16/first" not in await content(metadata)

    run(scenario)


@pytest.mark.parametrize("key", ["cluster", "broker-ids", "live/1"])
def test_store_with_entries_is_refused(key: str) -> None:
    """Nothing is written to a store that has any entry."""

    async def scenario(metadata: MemoryMetadata) -> None:
        await metadata.connect().transact({}, [Change(key, CLUSTER)])
        fill = await StoreFill.open(metadata.connect(), ENTRIES)
        with pytest.raises(StoreNotEmpty, match="1 keys already"):
            await fill.prepare()
        assert await content(metadata) == {key: CLUSTER}

    run(scenario)


def test_broker_that_creates_a_cluster_meanwhile_wins() -> None:
    """The fill does not end on a store that a broker has begun to use."""

    async def scenario(metadata: MemoryMetadata) -> None:
        fill = await StoreFill.open(metadata.connect(), ENTRIES)
        await metadata.connect().transact({"cluster": 0}, [Change("cluster", b'{"id":"another"}')])
        with pytest.raises(StoreNotEmpty):
            await fill.prepare()
        assert (await content(metadata))["cluster"] == b'{"id":"another"}'

    run(scenario)


def test_entries_without_a_meaning_are_refused() -> None:
    """A dump is understood before it is restored."""
    assert image_of({"cluster": CLUSTER}).cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
    for key, value in (("cluster", b"?"), ("unknown/1", b"{}"), ("features", b'{"metadata.version":99}')):
        with pytest.raises(MetadataStoreError):
            image_of({key: value})
