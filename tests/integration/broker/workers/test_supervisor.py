"""Tests the supervisor with programs that behave as workers in trouble do."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from klamm.broker.workers import supervisor as supervisor_module
from klamm.broker.workers.supervisor import Supervisor, WorkerStart

PATIENCE_S = 30

_SERVES = """
import pathlib, sys, time
with open(sys.argv[1], "a") as file:
    print("started", file=file)
print("ready 127.0.0.1:1", flush=True)
time.sleep(60)
"""
_ENDS_ONCE = """
import pathlib, sys, time
with open(sys.argv[1], "a") as file:
    print("started", file=file)
print("ready 127.0.0.1:1", flush=True)
if len(pathlib.Path(sys.argv[1]).read_text().split()) > 1:
    time.sleep(60)
"""
_HANGS = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "a") as file:
    print("started", file=file)
time.sleep(60)
"""


def _command(program: str, note: Path) -> Sequence[str]:
    return [sys.executable, "-c", program, str(note)]


def _starts(note: Path) -> int:
    return len(note.read_text().split()) if note.exists() else 0


async def _until(is_true: Callable[[], bool]) -> None:
    for _ in range(PATIENCE_S * 100):
        if is_true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it has not happened in time")


def test_a_stop_does_not_wait_for_a_start_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is told to stop while it starts, and does not react, is killed like one that serves."""
    monkeypatch.setattr(supervisor_module, "_STOP_S", 0.2)
    note = tmp_path / "note"

    async def scenario() -> None:
        supervisor = Supervisor(tmp_path / "data", 1, lambda start: _command(_HANGS, note))
        running = asyncio.create_task(supervisor.run())
        await _until(lambda: _starts(note) == 1)
        supervisor.stop()
        async with asyncio.timeout(PATIENCE_S):
            assert await running == 0

    asyncio.run(scenario())


def test_a_restart_that_the_system_refuses_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process can be made for a moment, because memory or descriptors are short. The other worker goes on."""
    notes = {number: tmp_path / f"note-{number}" for number in (1, 2)}
    make_process, refused = asyncio.create_subprocess_exec, 0

    async def refuse_second_start(*command: str, **options: Any) -> asyncio.subprocess.Process:
        nonlocal refused
        if command[-1] == str(notes[1]) and _starts(notes[1]) == 1 and refused < 2:
            refused += 1
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return await make_process(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse_second_start)

    def command_of(start: WorkerStart) -> Sequence[str]:
        return _command(_ENDS_ONCE if start.number == 1 else _SERVES, notes[start.number])

    async def scenario() -> None:
        supervisor = Supervisor(tmp_path / "data", 2, command_of)
        running = asyncio.create_task(supervisor.run())
        await _until(lambda: _starts(notes[1]) == 2)
        assert refused == 2
        assert _starts(notes[2]) == 1
        assert not running.done()
        supervisor.stop()
        async with asyncio.timeout(PATIENCE_S):
            assert await running == 0

    asyncio.run(scenario())
