"""The metadata store behind a socket: the contract of all stores, and what only its sessions have."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.metadata_sessions import assert_a_session_catches_up
from tests.unit.metadata.test_metadata_store import (  # noqa: F401 - the contract, run with this module's `open_store`
    OpenStore,
    run,
    test_a_closed_store_refuses,
    test_a_leased_key_that_was_removed_is_not_removed_again,
    test_a_session_is_valid_until_it_is_closed,
    test_a_transaction_needs_all_its_conditions,
    test_a_watcher_gets_the_content_and_then_every_commit,
    test_leased_keys_end_with_the_session,
    test_racing_transactions_are_ordered,
    watched,
)

from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStoreError, OutcomeUnknown
from klamm.metadata.remote_store import RemoteStore
from klamm.metadata.sqlite_store import SqliteStore
from klamm.metadata.store_frames import LENGTH, encode
from klamm.metadata.store_server import StoreServer


class _Supervisor:
    """A thread that owns a store and serves it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.socket"
        self._folder = folder
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._started.wait()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        store = await SqliteStore.open(self._folder / "metadata.sqlite")
        server = StoreServer(store, self.path)
        await server.start()
        self._started.set()
        await self._stop.wait()
        await server.stop()
        await store.close()

    def stop(self) -> None:
        """Stops the server cleanly; safe to call twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[_Supervisor]:
    """Serves a store while the test runs."""
    running = _Supervisor(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def open_store(supervisor: _Supervisor) -> OpenStore:
    """Returns a function that opens sessions."""
    return lambda: RemoteStore.open(supervisor.path)


def _within(scenario: Coroutine[Any, Any, None]) -> None:
    run(asyncio.wait_for(scenario, 30))


def test_only_this_user_may_open_the_socket(supervisor: _Supervisor) -> None:
    """The socket has no permissions for others."""
    assert stat.S_IMODE(os.stat(supervisor.path).st_mode) & 0o077 == 0


def test_each_session_sees_the_commits_of_all(open_store: OpenStore) -> None:
    """Commits of two sessions arrive at both in one order, each before the transaction of its writer returns; slow work
    on a commit runs on another thread."""

    async def scenario() -> None:
        one, two = await open_store(), await open_store()
        seen = [await watched(one), await watched(two)]
        threads: list[bool] = []
        loop_thread = threading.get_ident()
        await one.watch(
            lambda commit: None, prepare=lambda commit: threads.append(threading.get_ident() == loop_thread)
        )
        for number in range(50):
            writer = (one, two)[number % 2]
            revision = await writer.transact({}, [Change(f"k{number % 7}", b"\xff%d" % number)])
            assert seen[number % 2][-1].revision == revision
        await asyncio.gather(*(store.transact({}, [Change("last", b"")]) for store in (one, two)))
        for store in (one, two):  # the last commit of the other session may be on its way
            with pytest.raises(ConditionFailed):
                await store.transact({"last": 1}, [])
        assert [commit.revision for commit in seen[0]] == list(range(53))
        assert seen[0] == seen[1]
        assert set(threads) == {False}
        await one.close()
        await two.close()

    _within(scenario())


def test_a_session_catches_up(open_store: OpenStore) -> None:
    """After it has caught up, its watcher knows a commit that another session had made before."""
    _within(assert_a_session_catches_up(open_store))


def test_a_closed_session_takes_its_leased_keys_with_it(open_store: OpenStore) -> None:
    """Other sessions see that the leased keys of a closed session go, and that other keys stay."""

    async def scenario() -> None:
        one, two = await open_store(), await open_store()
        seen = await watched(two)
        await one.transact({}, [Change("live/1", b"", is_leased=True), Change("brokers/1", b"")])
        await one.close()
        await two.transact({}, [Change("after", b"")])
        assert [set(commit.entries) for commit in seen[1:]] == [{"live/1", "brokers/1"}, {"live/1"}, {"after"}]
        await two.close()

    _within(scenario())


def test_a_killed_process_takes_its_leased_keys_with_it(supervisor: _Supervisor, open_store: OpenStore) -> None:
    """The keys of a process that is killed go at once."""
    program = (
        "import asyncio, pathlib, sys\n"
        "from klamm.metadata.metadata_store import Change\n"
        "from klamm.metadata.remote_store import RemoteStore\n"
        "async def main():\n"
        "    store = await RemoteStore.open(pathlib.Path(sys.argv[1]))\n"
        "    await store.transact({}, [Change('live/1', b'', is_leased=True)])\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", program, str(supervisor.path)], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"

    async def scenario() -> None:
        store = await open_store()
        is_gone = asyncio.Event()

        def look(commit: Commit) -> None:
            if commit.entries.get("live/1", commit) is None:
                is_gone.set()

        await store.watch(look)
        worker.kill()
        await is_gone.wait()
        await store.close()

    _within(scenario())
    worker.wait()
    worker.stdout.close()


def test_a_session_is_lost_with_the_server(supervisor: _Supervisor, open_store: OpenStore) -> None:
    """When the server ends, the session says so once, and refuses every later operation."""

    async def scenario() -> None:
        store = await open_store()
        lost = asyncio.Event()
        store.on_session_lost(lost.set)
        await asyncio.to_thread(supervisor.stop)
        await lost.wait()
        with pytest.raises(MetadataStoreError):
            await store.transact({}, [Change("k", b"")])
        with pytest.raises(MetadataStoreError):
            await store.watch(lambda commit: None)
        await store.close()

    _within(scenario())


def test_the_outcome_of_an_unanswered_transaction_is_unknown(tmp_path: Path) -> None:
    """A transaction whose connection ends before the answer raises OutcomeUnknown."""
    path = tmp_path / "store.socket"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def hang_up() -> None:
        connection, _ = listening.accept()
        connection.recv(LENGTH.size)
        connection.close()

    thread = threading.Thread(target=hang_up)
    thread.start()

    async def scenario() -> None:
        store = await RemoteStore.open(path)
        with pytest.raises(OutcomeUnknown):
            await store.transact({}, [Change("k", b"")])
        await store.close()

    _within(scenario())
    thread.join()
    listening.close()


def test_a_client_that_talks_nonsense_is_let_go(supervisor: _Supervisor, open_store: OpenStore) -> None:
    """Damaged frames end their own session only."""
    for damage in (b"\xff\xff\xff\xff", LENGTH.pack(2) + b"[]", LENGTH.pack(12) + b'{"watch": {}', b"\0\0"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(30)
        connection.connect(str(supervisor.path))
        connection.sendall(damage)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
        connection.close()

    async def scenario() -> None:
        store = await open_store()
        assert await store.transact({}, [Change("k", b"")]) == 1
        await store.close()

    _within(scenario())


def test_a_client_that_does_not_read_is_let_go(
    supervisor: _Supervisor, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that reads no commits holds up neither the store nor other workers. Its session ends at a
    limit."""
    monkeypatch.setattr("klamm.metadata.store_server._UNSENT_BYTES", 1_000_000)
    asleep = socket.socket(socket.AF_UNIX)
    asleep.settimeout(30)
    asleep.connect(str(supervisor.path))
    asleep.sendall(encode({"watch": 1}))

    async def scenario() -> None:
        store = await open_store()
        seen = await watched(store)
        await store.transact({}, [Change("live/1", b"", is_leased=True)])
        while "its process does not read" not in caplog.text:
            await store.transact({}, [Change("k", bytes(100_000))])
        assert await store.transact({}, [Change("after", b"")]) == seen[-1].revision
        await store.close()

    _within(scenario())
    while asleep.recv(1 << 20):
        pass  # what was sent before the end
    asleep.close()


def test_without_a_server_the_error_names_the_socket(tmp_path: Path) -> None:
    """A session can't be opened where no server listens."""

    async def scenario() -> None:
        with pytest.raises(MetadataStoreError, match=r"no\.socket"):
            await RemoteStore.open(tmp_path / "no.socket")

    _within(scenario())


@pytest.mark.parametrize("turns", range(6))
def test_a_stop_ends_sessions_that_are_about_to_begin(tmp_path: Path, turns: int) -> None:
    """A client that connects some turns of the loop before the server stops sees the end of its connection."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "metadata.sqlite")
        path = tmp_path / "store.socket"
        server = StoreServer(store, path)
        await server.start()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        connection.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.stop()
        try:
            received = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(connection, 1), 10)
        except ConnectionResetError:
            received = b""
        assert received == b""
        connection.close()
        await store.close()

    _within(scenario())
