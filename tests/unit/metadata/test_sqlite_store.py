"""Tests that the single-node store keeps the guarantees of `MetadataStore`."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStoreError, Versioned
from klamm.metadata.sqlite_store import SqliteStore


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs one scenario on its own event loop."""
    asyncio.run(scenario)


async def contents(store: SqliteStore) -> Commit:
    """Returns everything in the store, as a new watcher gets it."""
    seen: list[Commit] = []
    await store.watch(seen.append)
    return seen[0]


def test_commits_are_prepared_before_they_are_told_and_beside_the_loop(tmp_path: Path) -> None:
    """Each commit, including earlier ones, is prepared once, in order, outside of the event loop's thread, and before
    its watcher is called."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        await store.transact({}, [Change("before", b"0")])
        prepared: list[tuple[int, bool]] = []
        told: list[tuple[int, int]] = []
        loop_thread = threading.get_ident()
        await store.watch(
            lambda commit: told.append((commit.revision, len(prepared))),
            prepare=lambda commit: prepared.append((commit.revision, threading.get_ident() == loop_thread)),
        )
        for revision in (2, 3):
            assert await store.transact({}, [Change(str(revision), b"1")]) == revision
            assert told[-1] == (revision, revision)
        await store.close()
        assert prepared == [(1, False), (2, False), (3, False)]
        assert [revision for revision, _ in told] == [1, 2, 3]

    run(scenario())


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    """Values and revisions are kept after reopening, and keys are ordered."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        assert await store.transact({}, [Change("b", b"1"), Change("a", b"2")]) == 1
        assert await store.transact({"b": 1}, [Change("b", b"3")]) == 2
        await store.close()
        store = await SqliteStore.open(tmp_path / "s")
        snapshot = await contents(store)
        assert snapshot.revision == 2
        assert list(snapshot.entries.items()) == [("a", Versioned(b"2", 1, 1)), ("b", Versioned(b"3", 1, 2))]
        await store.close()

    run(scenario())


def test_a_removed_key_is_created_anew(tmp_path: Path) -> None:
    """A key that is created again after its removal has a new create revision."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        await store.transact({}, [Change("k", b"1")])
        await store.transact({}, [Change("k", None)])
        await store.transact({"k": 0}, [Change("k", b"1")])
        assert (await contents(store)).entries == {"k": Versioned(b"1", 3, 3)}
        await store.close()

    run(scenario())


def test_a_condition_that_does_not_hold_changes_nothing(tmp_path: Path) -> None:
    """A failed condition changes no key and no revision."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        await store.transact({}, [Change("k", b"1")])
        for condition in ({"k": 0}, {"k": 2}, {"other": 1}, {"k": 1, "other": 5}):
            with pytest.raises(ConditionFailed):
                await store.transact(condition, [Change("k", b"2"), Change("other", b"2")])
        snapshot = await contents(store)
        assert snapshot.revision == 1
        assert snapshot.entries == {"k": Versioned(b"1", 1, 1)}
        await store.close()

    run(scenario())


def test_watchers_see_every_commit_once_in_order_before_its_answer(tmp_path: Path) -> None:
    """All watchers see concurrent transactions once, in the order of their revisions and before the answer."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        await store.transact({}, [Change("before", b"")])
        seen: list[Commit] = []
        also_seen: list[Commit] = []
        await store.watch(seen.append)
        await store.watch(also_seen.append)

        async def write(number: int) -> None:
            revision = await store.transact({}, [Change(f"k{number}", b"%d" % number)])
            assert any(commit.revision == revision for commit in seen)

        await asyncio.gather(*(write(number) for number in range(50)))
        assert [commit.revision for commit in seen] == list(range(1, 52))
        assert seen == also_seen
        assert seen[0].entries == {"before": Versioned(b"", 1, 1)}
        assert seen[1].entries == {"k0": Versioned(b"0", 2, 2)}
        await store.close()

    run(scenario())


def test_a_failed_condition_comes_after_the_commit_that_caused_it_was_seen(tmp_path: Path) -> None:
    """A failed condition is reported after the watchers saw the conflicting commit, so that the caller can decide
    again."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        seen: list[Commit] = []
        await store.watch(seen.append)
        winner = asyncio.ensure_future(store.transact({"k": 0}, [Change("k", b"1")]))
        await asyncio.sleep(0)
        with pytest.raises(ConditionFailed):
            await store.transact({"k": 0}, [Change("k", b"2")])
        assert [commit.revision for commit in seen] == [0, 1]
        assert await winner == 1
        await store.close()

    run(scenario())


def test_a_cancelled_callers_commit_is_still_seen(tmp_path: Path) -> None:
    """A commit whose caller was cancelled still reaches the watchers, because the transaction was in progress."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        seen: list[Commit] = []
        await store.watch(seen.append)
        caller = asyncio.ensure_future(store.transact({}, [Change("k", b"1")]))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await store.transact({}, [Change("l", b"1")])
        assert [commit.revision for commit in seen] == [0, 1, 2]
        await store.close()

    run(scenario())


def test_a_watcher_that_fails_fails_the_call_and_not_the_store(tmp_path: Path) -> None:
    """A watcher's error is raised to the caller, and the commit stays in the store."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")

        def fail(commit: Commit) -> None:
            if commit.revision:
                raise RuntimeError("no")

        await store.watch(fail)
        with pytest.raises(RuntimeError, match="no"):
            await store.transact({}, [Change("k", b"1")])
        assert (await contents(store)).entries.keys() == {"k"}
        await store.close()

    run(scenario())


def test_closing_finishes_what_was_begun_and_refuses_the_rest(tmp_path: Path) -> None:
    """Closing finishes pending transactions and refuses later ones; a second close is allowed."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        begun = asyncio.ensure_future(store.transact({}, [Change("k", b"1")]))
        await asyncio.sleep(0)
        await asyncio.gather(store.close(), store.close())
        assert await begun == 1
        with pytest.raises(MetadataStoreError, match="closed"):
            await store.transact({}, [Change("k", b"2")])

    run(scenario())


def test_a_store_in_use_is_not_opened_again(tmp_path: Path) -> None:
    """A store in use can't be opened by a second broker, because each broker would see only its own changes."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        with pytest.raises(MetadataStoreError, match="in use by another process"):
            await SqliteStore.open(tmp_path / "s")
        await store.close()

    run(scenario())


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """A file that is no store is refused and left unchanged."""
    path = tmp_path / "s"
    path.write_bytes(b"surely not a database" * 100)

    async def scenario() -> None:
        with pytest.raises(MetadataStoreError, match=r"cannot open the metadata store .*not a database"):
            await SqliteStore.open(path)

    run(scenario())
    assert path.read_bytes() == b"surely not a database" * 100


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing folder causes an error that names the file."""

    async def scenario() -> None:
        with pytest.raises(MetadataStoreError, match="nowhere"):
            await SqliteStore.open(tmp_path / "nowhere" / "s")

    run(scenario())


def test_a_store_of_a_later_format_is_refused(tmp_path: Path) -> None:
    """A store of a later format is refused, because an older program could damage it."""

    async def make() -> None:
        await (await SqliteStore.open(tmp_path / "s")).close()

    run(make())
    connection = sqlite3.connect(tmp_path / "s")
    connection.execute("PRAGMA user_version = 2")
    connection.close()

    async def scenario() -> None:
        with pytest.raises(MetadataStoreError, match="has format 2; this klamm knows 1"):
            await SqliteStore.open(tmp_path / "s")

    run(scenario())
