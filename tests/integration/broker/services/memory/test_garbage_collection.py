"""The garbage collector runs a full collection when the process is quiet."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest
from tests.support.event_loop import in_loop

from klamm.broker.services.memory import garbage_collection
from klamm.broker.services.memory.garbage_collection import GarbageCollection


@pytest.fixture
def collection() -> Iterator[GarbageCollection]:
    """Returns a GarbageCollection that the test starts; stops it after the test, because this process is not only a
    broker."""
    collection = GarbageCollection()
    yield collection
    collection.stop()
    gc.enable()


def test_it_looks_at_everything_when_it_is_quiet(
    collection: GarbageCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full collection runs when the process is quiet and the minimum interval has passed, and not before."""
    monkeypatch.setattr(garbage_collection, "LOOK_S", 0.01)
    monkeypatch.setattr(garbage_collection, "QUIET_SHARE", 100.0)

    @in_loop
    async def wait() -> None:
        collect = collection.collect
        has_looked = asyncio.Event()

        def count() -> int:
            has_looked.set()
            return collect()

        monkeypatch.setattr(collection, "collect", count)
        collection.start()
        await asyncio.sleep(0.1)
        assert not has_looked.is_set()
        monkeypatch.setattr(garbage_collection, "HOUR_S", 0.0)
        await asyncio.wait_for(has_looked.wait(), 10)

    wait()
