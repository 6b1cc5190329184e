"""Tests that every metadata store keeps the guarantees of `MetadataStore`."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStore, MetadataStoreError, Versioned
from klamm.metadata.sqlite_store import SqliteStore
from klamm.session_clock import session_time

OpenStore = Callable[[], Awaitable[MetadataStore]]
"""Opens a session with the test's content. A store that is not shared has one session at a time."""


def _sqlite(folder: Path) -> OpenStore:
    return lambda: SqliteStore.open(folder / "s")


def _memory(folder: Path) -> OpenStore:
    metadata = MemoryMetadata()

    async def connect() -> MetadataStore:
        return metadata.connect()

    return connect


STORES: Final[Mapping[str, Callable[[Path], OpenStore]]] = {
    "sqlite": _sqlite,
    "memory": _memory,
}


@pytest.fixture(params=list(STORES))
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Returns a function that opens sessions with one store, of each kind in turn."""
    return STORES[request.param](tmp_path)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs one scenario on its own event loop."""
    asyncio.run(scenario)


async def watched(store: MetadataStore) -> list[Commit]:
    """Returns the list to which the store adds every commit."""
    seen: list[Commit] = []
    await store.watch(seen.append)
    return seen


def test_a_watcher_gets_the_content_and_then_every_commit(open_store: OpenStore) -> None:
    """The first commit has the whole content with its revisions, and every later commit arrives before the
    transaction returns."""

    async def scenario() -> None:
        store = await open_store()
        first = await store.transact({}, [Change("b", b"1"), Change("a", b"2")])
        second = await store.transact({}, [Change("b", b"3")])
        seen = await watched(store)
        content = {"a": Versioned(b"2", first, first), "b": Versioned(b"3", first, second)}
        assert seen == [Commit(second, content)]
        assert list(seen[0].entries) == ["a", "b"]
        third = await store.transact({}, [Change("a", None), Change("c", b"")])
        assert first < second < third
        assert seen[1:] == [Commit(third, {"a": None, "c": Versioned(b"", third, third)})]
        await store.close()

    run(scenario())


def test_a_transaction_needs_all_its_conditions(open_store: OpenStore) -> None:
    """Without the required revisions, where 0 means absent, nothing is changed."""

    async def scenario() -> None:
        store = await open_store()
        first = await store.transact({"a": 0}, [Change("a", b"1")])
        seen = await watched(store)
        for conditions in ({"a": 0}, {"a": first + 1}, {"b": first}, {"a": first, "b": first}):
            with pytest.raises(ConditionFailed):
                await store.transact(conditions, [Change("b", b"1"), Change("a", None)])
        assert len(seen) == 1
        assert await store.transact({"a": first, "b": 0}, [Change("a", b"2")]) == first + 1
        await store.close()

    run(scenario())


def test_leased_keys_end_with_the_session(open_store: OpenStore) -> None:
    """A leased key lasts until its session is closed. A key that is written again without a lease stays."""

    async def scenario() -> None:
        store = await open_store()
        first = await store.transact(
            {}, [Change("a", b"1", is_leased=True), Change("b", b"1"), Change("c", b"1", is_leased=True)]
        )
        second = await store.transact({}, [Change("c", b"2"), Change("b", b"2", is_leased=True)])
        await store.close()
        store = await open_store()
        (content,) = await watched(store)
        assert content == Commit(second + 1, {"c": Versioned(b"2", first, second)})
        await store.close()

    run(scenario())


def test_a_leased_key_that_was_removed_is_not_removed_again(open_store: OpenStore) -> None:
    """The end of a session changes nothing if its leased keys are gone already."""

    async def scenario() -> None:
        store = await open_store()
        await store.transact({}, [Change("a", b"1", is_leased=True)])
        second = await store.transact({}, [Change("a", None)])
        await store.close()
        store = await open_store()
        assert await watched(store) == [Commit(second, {})]
        await store.close()

    run(scenario())


def test_a_closed_store_refuses(open_store: OpenStore) -> None:
    """A closed store can be closed again. It refuses transactions, and can't tell whether it has caught up."""

    async def scenario() -> None:
        store = await open_store()
        await store.close()
        await store.close()
        with pytest.raises(MetadataStoreError):
            await store.transact({}, [Change("a", b"1")])
        with pytest.raises(MetadataStoreError):
            await store.catch_up()

    run(scenario())


def test_a_session_in_memory_catches_up_with_another_thread() -> None:
    """After it has caught up, its watcher knows a commit that another session had made before, on another loop."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        store = metadata.connect()
        seen = await watched(store)

        async def change() -> int:
            return await metadata.connect().transact({}, [Change("a", b"1")])

        revisions: list[int] = []
        other = threading.Thread(target=lambda: revisions.append(asyncio.run(change())))
        other.start()
        other.join()  # this loop stands still meanwhile
        assert len(seen) == 1
        await store.catch_up()
        assert [commit.revision for commit in seen[1:]] == revisions
        await store.close()

    run(scenario())


def test_a_session_is_valid_until_it_is_closed(open_store: OpenStore) -> None:
    """While the session lasts, it is certain to last for some time."""

    async def scenario() -> None:
        store = await open_store()
        assert store.valid_until() > session_time()
        await store.close()

    run(scenario())


def test_racing_transactions_are_ordered(open_store: OpenStore) -> None:
    """Of transactions with the same condition one succeeds, and a watcher sees the commits in the order of their
    revisions."""

    async def scenario() -> None:
        store = await open_store()
        seen = await watched(store)
        outcomes = await asyncio.gather(
            *(store.transact({"a": 0}, [Change("a", b"%d" % number)]) for number in range(10)), return_exceptions=True
        )
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1, outcomes
        assert sum(isinstance(outcome, ConditionFailed) for outcome in outcomes) == 9, outcomes
        await asyncio.gather(*(store.transact({}, [Change(str(number), b"")]) for number in range(10)))
        first = seen[0].revision
        assert [commit.revision for commit in seen] == list(range(first, first + 12))
        await store.close()

    run(scenario())


def test_leased_keys_of_a_killed_process_are_removed_when_the_file_is_opened(tmp_path: Path) -> None:
    """A session that did not end with `close` leaves no leased keys to the next session of the file."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        await store.transact({}, [Change("a", b"1", is_leased=True), Change("b", b"1")])
        shutil.copytree(tmp_path, tmp_path / "copy")  # what the disk has after a kill
        await store.close()
        reopened = await SqliteStore.open(tmp_path / "copy" / "s")
        (content_now,) = await watched(reopened)
        assert content_now.entries.keys() == {"b"}
        assert content_now.revision == 2
        await reopened.close()

    run(scenario())
