"""What every metadata store of several sessions has to do, for the tests of each kind of store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from klamm.metadata.metadata_store import Change, Commit, MetadataStore

__all__ = ["assert_a_session_catches_up"]


async def assert_a_session_catches_up(open_store: Callable[[], Awaitable[MetadataStore]]) -> None:
    """A session whose watcher is late has caught up only when the watcher knows what another session had committed."""
    one, two = await open_store(), await open_store()
    may_continue = threading.Event()
    seen: list[Commit] = []

    def prepare(commit: Commit) -> None:
        if seen:
            may_continue.wait(10)

    await two.watch(seen.append, prepare=prepare)
    revision = await one.transact({}, [Change("a", b"1")])
    catching_up = asyncio.ensure_future(two.catch_up())
    await one.catch_up()
    assert len(seen) == 1
    may_continue.set()
    await catching_up
    assert [commit.revision for commit in seen[1:]] == [revision]
    await one.close()
    await two.close()
