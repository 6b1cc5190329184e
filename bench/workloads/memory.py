"""Resident memory of the broker's processes: three seconds after the first response, and after 1 GB of 1 KB records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from bench.measure import resident_bytes
from bench.peers import Peer
from bench.workload import Figure, LifeWorkload, Load
from bench.workloads.throughput import produce_all

__all__ = ["WORKLOAD"]

_COUNT = 1_000_000


def _measure(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    running = peer.start(folder, {})
    try:
        time.sleep(3)
        idle = resident_bytes(running.process_id)
        produce_all(running, load, "filled", size_bytes=1000, count=_COUNT)
        filled = resident_bytes(running.process_id)
    finally:
        running.stop()
    return {"idle_megabytes": idle / 1e6, "filled_megabytes": filled / 1e6}


WORKLOAD = LifeWorkload(
    name="memory",
    title="Resident memory",
    section="Start and memory",
    figures=(
        Figure("idle_megabytes", "memory, idle", "MB", less_is_better=True, target=0.25, limit=80, digits=0),
        Figure("filled_megabytes", "memory after 1 GB produced", "MB", less_is_better=True, target=0.25, digits=0),
    ),
    rounds=2,
    measure=_measure,
)
