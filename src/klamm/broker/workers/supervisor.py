"""The supervisor of several workers: it owns the metadata store, starts a process for each worker, and stops them.

A worker that ends is started again. The supervisor serves no clients. When it dies, each worker loses its session with
the metadata store and stops by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from klamm.broker.services.other_brokers import refuse_other_brokers
from klamm.broker.workers.worker_place import socket_path
from klamm.metadata.entries import apply
from klamm.metadata.image import EMPTY_IMAGE
from klamm.metadata.metadata_store import Commit
from klamm.metadata.sqlite_store import SqliteStore
from klamm.metadata.store_server import StoreServer
from klamm.storage.lost_metadata import is_lost, refuse_lost_metadata
from klamm.storage.metadata_files import METADATA_FILE

__all__ = ["Supervisor"]

_logger = logging.getLogger(__name__)

_READY: Final = "ready "
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_START_ATTEMPTS: Final = 5
"""How often a worker may fail before its first start has succeeded: an earlier worker may still be stopping."""
_STOP_S: Final = 60.0
"""A worker that has not stopped after this time is killed."""


class Supervisor:
    """Runs the workers from `run` until `stop` is called.

    `command_of` returns the command of a worker, from its number and the path of the store's socket. Each worker prints
    a line that begins with `ready` once it serves.
    """

    def __init__(self, directory: Path, workers: int, command_of: Callable[[int, Path], Sequence[str]]) -> None:
        self._directory = directory
        self._numbers = range(1, workers + 1)
        self._command_of = command_of
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._ready_lines: dict[int, str] = {}
        self._all_ready = asyncio.Event()
        self._stopping = asyncio.Event()
        self._socket = socket_path(directory)

    def stop(self) -> None:
        """Begins to stop all workers."""
        self._stopping.set()

    async def run(self) -> int:
        """Starts the workers, prints their `ready` lines, and returns after the stop: 0, or 1 if a worker can't start.

        Raises KlammError if the data directory is in use, or has partitions of more workers.
        """
        store = await self._open_store()
        server = StoreServer(store, self._socket)
        try:
            await server.start()
            return await self._supervise()
        finally:
            await server.stop()
            await store.close()

    async def _open_store(self) -> SqliteStore:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / METADATA_FILE
        if is_lost(path):
            refuse_lost_metadata(self._directory)
        store = await SqliteStore.open(path)
        commits: list[Commit] = []
        try:
            await store.watch(commits.append)
            (content,) = commits
            refuse_other_brokers(apply(EMPTY_IMAGE, content.revision, content.entries), self._numbers)
        except BaseException:
            await store.close()
            raise
        return store

    async def _supervise(self) -> int:
        tasks = [asyncio.create_task(self._keep(number)) for number in self._numbers]
        announcing = asyncio.create_task(self._announce())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        has_failed = not self._stopping.is_set()
        self._stopping.set()
        _logger.info("stopping %d workers", len(self._processes))
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*tasks)
        announcing.cancel()
        return 1 if has_failed else 0

    async def _announce(self) -> None:
        await self._all_ready.wait()
        # In one piece: who reads only the first line may close the pipe.
        print("".join(self._ready_lines[number] for number in self._numbers), end="", flush=True)

    async def _keep(self, number: int) -> None:
        """Runs one worker again and again, until the supervisor stops or the first starts fail."""
        pause_s, attempts = _FIRST_PAUSE_S, 0
        while not self._stopping.is_set():
            attempts += 1
            is_ready = await self._run_once(number)
            if self._stopping.is_set():
                return
            if is_ready:
                pause_s = _FIRST_PAUSE_S
            elif number not in self._ready_lines and attempts >= _START_ATTEMPTS:
                _logger.error("worker %d does not start", number)
                return
            _logger.warning("worker %d has ended; it is started again in %g s", number, pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _run_once(self, number: int) -> bool:
        """Runs one process of a worker to its end, and returns whether it served."""
        process = await asyncio.create_subprocess_exec(
            *self._command_of(number, self._socket), stdout=asyncio.subprocess.PIPE
        )
        self._processes[number] = process
        if self._stopping.is_set():
            process.terminate()
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        is_ready = line.startswith(_READY)
        if is_ready:
            self._ready_lines[number] = line
            if len(self._ready_lines) == len(self._numbers):
                self._all_ready.set()
        ended = asyncio.create_task(process.wait())
        await asyncio.wait(
            [ended, stopping := asyncio.create_task(self._stopping.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        stopping.cancel()
        try:
            await asyncio.wait_for(ended, _STOP_S)
        except TimeoutError:
            _logger.error("worker %d does not stop, and is killed", number)
            process.kill()
            await process.wait()
        del self._processes[number]
        return is_ready
