"""Tests that the garbage collector skips long-lived objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tests.support.event_loop import in_loop

from klamm.broker.services.memory.garbage_collection import GarbageCollection
from klamm.broker.time_slices import turn


class Node:
    """An object that can refer to itself."""

    def __init__(self) -> None:
        self.itself: Node | None = None


@pytest.fixture
def collection() -> Iterator[GarbageCollection]:
    """Yields a collection that the test starts, and stops it at the end, because other tests share the process."""
    collection = GarbageCollection()
    yield collection
    collection.stop()
    gc.enable()


def survivors() -> list[list[int]]:
    """Returns enough objects to trigger the young collections."""
    return [[number] for number in range(50_000)]


@in_loop
async def frozen_count(collection: GarbageCollection, counts: list[int]) -> None:
    collection.start()
    counts.append(gc.get_freeze_count())
    kept = survivors()
    counts.append(gc.get_freeze_count())
    assert len(kept) == 50_000


def test_what_has_survived_is_looked_at_no_more(collection: GarbageCollection) -> None:
    """Objects that survive a collection are frozen, and are still freed when their last reference goes."""
    counts: list[int] = []
    frozen_count(collection, counts)
    before, after = counts
    assert after > before + 40_000
    gc.collect(0)
    assert gc.get_freeze_count() < after


def test_long_lists_of_earlier_steps_are_not_looked_at(collection: GarbageCollection) -> None:
    """After larger work has had a turn, a collection skips all objects from before."""
    looked_at: list[int] = []

    @in_loop
    async def work() -> None:
        collection.start()
        gc.disable()  # collections run only when this test calls them
        kept = survivors()
        gc.collect(0)
        looked_at.append(sum(map(len, (gc.get_objects(0), gc.get_objects(1)))))
        more = survivors()
        await turn()
        gc.collect(0)
        looked_at.append(sum(map(len, (gc.get_objects(0), gc.get_objects(1)))))
        assert len(kept) == len(more)

    work()
    without_turn, with_turn = looked_at
    assert without_turn > 50_000
    assert with_turn < 1000


def test_cycles_are_found_when_it_looks_at_everything(collection: GarbageCollection) -> None:
    """A full collection finds cycles, even frozen ones."""

    @in_loop
    async def collect() -> None:
        collection.start()
        node = Node()
        node.itself = node
        gc.freeze()
        del node
        gc.collect()
        assert collection.collect() >= 1

    collect()
