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
from typing import Final, NamedTuple

from klamm._version import __version__
from klamm.broker.services.cluster.directory_of_cluster import refuse_cluster_directory
from klamm.broker.workers.redistribution import redistribute
from klamm.broker.workers.supervisor_version import OTHER_VERSION_STATUS
from klamm.broker.workers.worker_place import socket_path
from klamm.metadata.sqlite_store import SqliteStore
from klamm.metadata.store_server import StoreServer
from klamm.storage.atomic_file import FOLDER_MODE
from klamm.storage.directory.lost_metadata import is_lost, refuse_lost_metadata
from klamm.storage.directory.metadata_files import METADATA_FILE

__all__ = ["Supervisor", "WorkerStart"]

_logger = logging.getLogger(__name__)

_READY: Final = "ready "
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_STEADY_S: Final = 10.0
"""A worker that has served for this time is started again with the shortest pause."""
_START_ATTEMPTS: Final = 3
"""How often a worker may fail before its first start has succeeded."""
_STOP_S: Final = 60.0
"""A worker that has not stopped after this time is killed."""


class WorkerStart(NamedTuple):
    """What a worker is started with."""

    number: int
    metadata_socket: Path
    waits_for_others: bool
    """Whether the other workers are starting, too."""
    port: int
    """The port that the worker had before, 0 without one. Clients know it, and are slow to find another."""


class Supervisor:
    """Runs the workers from `run` until `stop` is called.

    `command_of` returns the command of a worker, which prints `ready HOST:PORT` once it serves.
    """

    def __init__(self, directory: Path, workers: int, command_of: Callable[[WorkerStart], Sequence[str]]) -> None:
        self._directory = directory
        self._numbers = range(1, workers + 1)
        self._command_of = command_of
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._ready_lines: dict[int, str] = {}
        self._ports: dict[int, int] = {}
        """The port of each worker's last run; none if it did not serve: the port may be taken."""
        self._all_ready = asyncio.Event()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Begins to stop all workers."""
        self._stopping.set()

    async def run(self) -> int:
        """Starts the workers, prints their `ready` lines, and returns after the stop: 0, or 1 if a worker can't start,
        also because it is of another version.

        Raises KlammError if the data directory is in use or a partition can't be moved to its worker, and OSError.
        """
        store = await self._open_store()
        socket = socket_path(self._directory)
        server = StoreServer(store, socket)
        try:
            await server.start()
            return await self._supervise(socket)
        finally:
            await server.stop()
            await store.close()
            if socket.parent != self._directory.absolute():
                socket.parent.rmdir()

    async def _open_store(self) -> SqliteStore:
        self._directory.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path = self._directory / METADATA_FILE
        refuse_cluster_directory(self._directory)
        if is_lost(path):
            refuse_lost_metadata(self._directory)
        store = await SqliteStore.open(path)
        try:
            await redistribute(store, self._directory, len(self._numbers))
        except BaseException:
            await store.close()
            raise
        return store

    async def _supervise(self, socket: Path) -> int:
        tasks = [asyncio.create_task(self._keep(number, socket)) for number in self._numbers]
        announcing = asyncio.create_task(self._announce())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        has_failed = not self._stopping.is_set()
        self._stopping.set()
        _logger.info("stopping %d workers", len(self._processes))
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        # The store is closed only when no worker uses it any more.
        await asyncio.wait(tasks)
        announcing.cancel()
        for task in tasks:
            task.result()
        return 1 if has_failed else 0

    async def _announce(self) -> None:
        await self._all_ready.wait()
        # In one write: a reader that needs only the first line may close the pipe after it.
        print("".join(self._ready_lines[number] for number in self._numbers), end="", flush=True)

    async def _keep(self, number: int, socket: Path) -> None:
        """Runs one worker again and again, until the supervisor stops or the first starts fail."""
        loop = asyncio.get_running_loop()
        pause_s, attempts = _FIRST_PAUSE_S, 0
        while not self._stopping.is_set():
            attempts += 1
            began = loop.time()
            try:
                status = await self._run_once(number, socket)
            except OSError as error:
                status, ending = None, f"can't be started: {error}"
            else:
                ending = _ending(status)
            if self._stopping.is_set():
                return
            if status == OTHER_VERSION_STATUS:
                _logger.error(
                    "another version of klamm was installed since this command, klamm %s, was started. Worker %d can't "
                    "run next to the others, so all workers stop: start the command again",
                    __version__,
                    number,
                )
                return
            if loop.time() - began >= _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            if number not in self._ready_lines and attempts >= _START_ATTEMPTS:
                _logger.error("worker %d %s. It has failed %d times, so the command ends", number, ending, attempts)
                return
            _logger.warning("worker %d %s. It is started again in %g s", number, ending, pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _run_once(self, number: int, socket: Path) -> int | None:
        """Runs one process of a worker to its end, and returns its exit status."""
        process = await asyncio.create_subprocess_exec(
            *self._command_of(WorkerStart(number, socket, not self._all_ready.is_set(), self._ports.pop(number, 0))),
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C in a terminal is for the supervisor, which then stops the workers.
            start_new_session=True,
        )
        self._processes[number] = process
        if self._stopping.is_set():
            process.terminate()
        reading = asyncio.create_task(self._read_ready_line(number, process))
        await self._wait_for_end(number, process)
        await reading
        del self._processes[number]
        return process.returncode

    async def _read_ready_line(self, number: int, process: asyncio.subprocess.Process) -> None:
        """Waits until the worker serves, or has ended."""
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        if line.startswith(_READY):
            self._ready_lines[number] = line
            self._ports[number] = int(line.rpartition(":")[2])
            if len(self._ready_lines) == len(self._numbers):
                self._all_ready.set()

    async def _wait_for_end(self, number: int, process: asyncio.subprocess.Process) -> None:
        """Waits for the end of a process. Kills it if it is told to stop and does not."""
        ended, stopping = asyncio.create_task(process.wait()), asyncio.create_task(self._stopping.wait())
        await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        try:
            await asyncio.wait_for(ended, _STOP_S)
        except TimeoutError:
            _logger.error("worker %d does not stop, and is killed", number)
            process.kill()
            await process.wait()


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return f"was ended by signal {-status}"
    return f"has ended with status {status}"
