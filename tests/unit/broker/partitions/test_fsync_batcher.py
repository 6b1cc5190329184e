"""Tests that syncs of logs are shared, and that all who asked for one hear of its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append

from klamm.broker.partitions.fsync_batcher import FsyncBatcher
from klamm.storage.log.log import Log

Told = list[tuple[str, int]]


def in_batcher(path: Path, scenario: Callable[[FsyncBatcher, Log], Coroutine[Any, Any, None]]) -> None:
    """Runs a scenario with a batcher and a log that has a record which is not synced."""

    async def run() -> None:
        folder = LogFolder(path)
        batcher = FsyncBatcher(asyncio.get_running_loop(), lambda: NOW_MS)
        try:
            log = folder.create()
            append(log)
            await scenario(batcher, log)
        finally:
            batcher.stop()
            folder.close()

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("is_offline", [False, True])
def test_all_who_asked_for_a_sync_hear_of_its_end(tmp_path: Path, is_offline: bool) -> None:
    """The leader's and the follower's side of a log may both wait for a sync while the role of the broker changes. Each
    of them hears once of the sync that they share, also if the log is offline before it begins."""

    async def scenario(batcher: FsyncBatcher, log: Log) -> None:
        told: Told = []
        have_ended = asyncio.Event()

        def leads() -> None:
            told.append(("leads", log.recovery_point))

        def follows() -> None:
            told.append(("follows", log.recovery_point))
            have_ended.set()

        batcher.request(log, leads)
        batcher.request(log, follows)
        batcher.request(log, leads)
        if is_offline:
            log.mark_offline("the disk has failed")
        await have_ended.wait()
        assert told == [("leads", 0 if is_offline else 1), ("follows", 0 if is_offline else 1)]

    in_batcher(tmp_path, scenario)


def test_records_appended_during_a_sync_are_covered_by_the_next(tmp_path: Path) -> None:
    """A request made while a sync runs is told of the sync that covers it, not of the one that runs."""

    async def scenario(batcher: FsyncBatcher, log: Log) -> None:
        covered = asyncio.Event()

        def first() -> None:
            append(log)
            batcher.request(log, covered.set)

        batcher.request(log, first)
        await covered.wait()
        assert log.recovery_point == log.log_end_offset == 2

    in_batcher(tmp_path, scenario)


def test_a_log_behind_offline_ones_is_synced(tmp_path: Path) -> None:
    """As many logs as there are threads have been deleted, or have failed, since their requests. The next log is synced
    nevertheless: nothing else may ask for a sync soon, and a follower copies nothing meanwhile."""

    async def scenario(_: FsyncBatcher, log: Log) -> None:
        batcher = FsyncBatcher(asyncio.get_running_loop(), lambda: NOW_MS, threads=1)
        folder = LogFolder(tmp_path / "other")
        other = folder.create()
        append(other)
        has_ended = asyncio.Event()
        batcher.request(other, lambda: None)
        batcher.request(log, has_ended.set)
        other.mark_offline("the disk has failed")
        try:
            async with asyncio.timeout(5):
                await has_ended.wait()
        finally:
            batcher.stop()
            folder.close()
        assert log.recovery_point == 1

    in_batcher(tmp_path / "data", scenario)
