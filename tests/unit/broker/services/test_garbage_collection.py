"""The garbage collector leaves alone what lives long."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tests.support.event_loop import in_loop

from klamm.broker.services.garbage_collection import GarbageCollection
from klamm.broker.time_slices import turn


class Node:
    """Something that can refer to itself."""

    def __init__(self) -> None:
        self.itself: Node | None = None


@pytest.fixture
def collection() -> Iterator[GarbageCollection]:
    """Started by the test; this process is more than a broker, so it ends with it."""
    collection = GarbageCollection()
    yield collection
    collection.stop()
    gc.enable()


def survivors() -> list[list[int]]:
    """Enough objects for the young collections to have been made."""
    return [[number] for number in range(50_000)]


@in_loop
async def frozen_count(collection: GarbageCollection, counts: list[int]) -> None:
    collection.start()
    counts.append(gc.get_freeze_count())
    kept = survivors()
    counts.append(gc.get_freeze_count())
    assert len(kept) == 50_000


def test_what_has_survived_is_looked_at_no_more(collection: GarbageCollection) -> None:
    """It is out of the collector's sight, and still goes when nobody refers to it."""
    counts: list[int] = []
    frozen_count(collection, counts)
    before, after = counts
    assert after > before + 40_000
    gc.collect(0)
    assert gc.get_freeze_count() < after


def test_long_lists_of_earlier_steps_are_not_looked_at(collection: GarbageCollection) -> None:
    """Once larger work has had a turn, a collection leaves out all that was made before."""
    looked_at: list[int] = []

    @in_loop
    async def work() -> None:
        collection.start()
        gc.disable()  # collections come when this says so
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
    """Even if they had been put aside."""

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
