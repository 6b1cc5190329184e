"""Ten thousand groups of one member each: the memory for a group, and the rate and latency of heartbeats."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from bench.many_groups import MakeGroups, make_classic_groups, make_consumer_groups
from bench.measure import cpu_seconds, resident_bytes
from bench.peers import Peer
from bench.workload import PARTITIONS, Figure, LifeWorkload, Load

__all__ = ["CLASSIC", "CONSUMER", "measure_groups"]

_GROUPS = 10_000
_CONNECTIONS = 50
_HEARTBEAT_INTERVAL_S = 3.0
_AS_FAST_AS_IT_GOES = 0
_TICK_S = 0.01
"""The kernel counts processor time in such steps."""
_SESSION_TIMEOUT_MS = "300000"
"""The same as in the classic members' requests: the first members send nothing until the last ones have joined."""
_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": _SESSION_TIMEOUT_MS,
    "group.consumer.max.session.timeout.ms": _SESSION_TIMEOUT_MS,
}


def measure_groups(peer: Peer, folder: Path, load: Load, make: MakeGroups) -> Mapping[str, float]:
    """Starts a broker with ten thousand groups, and returns all figures of their heartbeats and their memory."""
    groups = _GROUPS if load.scale >= 1 else _GROUPS // 5
    running = peer.start(folder, _CONFIG)
    try:
        running.create_topic("read-by-many", PARTITIONS)
        time.sleep(1)
        before = resident_bytes(running.process_id)
        heartbeats = make(running.bootstrap_servers, "read-by-many", groups, folder / "heartbeats")
        time.sleep(1)
        filled = resident_bytes(running.process_id)

        def beat(rate: int) -> Mapping[str, float]:
            seconds = max(2.0, 10 * load.scale)
            taken = cpu_seconds(running.process_id)
            figures = load.programs.run(
                "heartbeats",
                bootstrap=heartbeats.addresses,
                topic="read-by-many",
                file=heartbeats.files,
                members=_CONNECTIONS,
                seconds=seconds,
                rate=rate,
            )
            taken = max(_TICK_S, cpu_seconds(running.process_id) - taken)
            return {**figures, "per_processor": figures["per_second"] * seconds / taken}

        steady = beat(int(groups / _HEARTBEAT_INTERVAL_S))
        most = beat(_AS_FAST_AS_IT_GOES)
    finally:
        running.stop()
    return {
        "per_second": most["per_second"],
        "per_processor": most["per_processor"],
        "p99_ms": steady["p99_ms"],
        "megabytes": filled / 1e6,
        "kilobytes_per_group": max(filled - before, 0) / groups / 1e3,
    }


def _workload(name: str, kind: str, make: MakeGroups) -> LifeWorkload:
    title = f"10,000 {kind} groups of one member"
    return LifeWorkload(
        name=name,
        title=title,
        figures=(
            Figure("per_second", "heartbeats, 50 connections", "/s", target=1.0, digits=0),
            Figure("p99_ms", "answer to a heartbeat at 3,333/s, p99", "ms", True, target=1.0, digits=2),
            Figure("megabytes", "memory of the broker", "MB", True, target=1.0, limit=400, digits=0),
            Figure("kilobytes_per_group", "memory for each group", "kB", True, digits=2),
        ),
        rounds=2,
        without={"tansu": "not a peer in groups of this number", "mock": "no broker"},
        measure=lambda peer, folder, load: measure_groups(peer, folder, load, make),
    )


CLASSIC = _workload("many_classic_groups", "classic", make_classic_groups)
CONSUMER = _workload("many_consumer_groups", "consumer-protocol", make_consumer_groups)
