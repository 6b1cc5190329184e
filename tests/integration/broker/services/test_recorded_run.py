"""The record of a run in the data directory of a broker of a cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.metadata_brokers import ENDPOINTS, UnreliableStore

from klamm.broker.services.broker_services import BrokerServices
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.entries import live_key
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Change
from klamm.protocol.types import BrokerId, Millis
from klamm.storage.directory.meta_properties import META_PROPERTIES_FILE


def test_a_run_is_recorded_on_the_disk_before_it_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure after the registration leaves the record of the run. Without it the directory would look like
    that of another broker, and partitions that had no record on the disk yet would have no leader for ever."""
    renamed: list[str] = []
    durable: list[str] = []
    replace, fsync = os.replace, os.fsync

    def watched_replace(source: Any, target: Any) -> None:
        replace(source, target)
        renamed.append(Path(target).name)

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        if os.fstat(descriptor).st_ino == tmp_path.stat().st_ino:
            durable.extend(renamed)

    monkeypatch.setattr(os, "replace", watched_replace)
    monkeypatch.setattr(os, "fsync", watched_fsync)
    registered, *_ = asyncio.run(_what_is_durable(tmp_path, durable))
    assert registered


async def _what_is_durable(path: Path, durable: list[str]) -> list[bool]:
    """Starts a broker, and returns for each transaction that makes it live whether its record was durable before."""
    found = []

    class WatchedStore(UnreliableStore):
        async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
            if any(change.key == live_key(BrokerId(1)) for change in changes):
                found.append(META_PROPERTIES_FILE in durable)
            return await super().transact(conditions, changes)

    async def open_store() -> WatchedStore:
        return WatchedStore(MemoryMetadata().connect())

    services = BrokerServices(BrokerConfig(node_id=BrokerId(1), log_dirs=(path,)), lambda: Millis(1))
    try:
        await services.start(open_store, ENDPOINTS)
    finally:
        await services.stop()
    return found
