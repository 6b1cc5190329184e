"""Ten thousand groups of one member each: the memory for a group, and the rate and latency of heartbeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.many_groups import MakeGroups, make_classic_groups, make_consumer_groups
from bench.measure import resident_bytes
from bench.peers import Peer
from bench.workload import PARTITIONS, Figure, LifeWorkload, Load

__all__ = ["CLASSIC", "CONSUMER"]

_GROUPS = 10_000
_CONNECTIONS = 50
_HEARTBEAT_INTERVAL_S = 3.0
_AS_FAST_AS_IT_GOES = 0
_SESSION_TIMEOUT_MS = "300000"
"""The same as in the classic members' requests: the first members send nothing until the last ones have joined."""
_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": _SESSION_TIMEOUT_MS,
    "group.consumer.max.session.timeout.ms": _SESSION_TIMEOUT_MS,
}


def _measure_with(make: MakeGroups) -> Callable[[Peer, Path, Load], Mapping[str, float]]:
    def measure(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
        groups = _GROUPS if load.scale >= 1 else _GROUPS // 5
        running = peer.start(folder, _CONFIG)
        try:
            running.create_topic("read-by-many", PARTITIONS)
            time.sleep(1)
            before = resident_bytes(running.process_id)
            heartbeats = folder / "heartbeats"
            make(running.bootstrap_servers, "read-by-many", groups, heartbeats)
            time.sleep(1)
            filled = resident_bytes(running.process_id)

            def beat(rate: int) -> Mapping[str, float]:
                return load.programs.run(
                    "heartbeats",
                    bootstrap=running.bootstrap_servers,
                    topic="read-by-many",
                    file=heartbeats,
                    members=_CONNECTIONS,
                    seconds=max(2.0, 10 * load.scale),
                    rate=rate,
                )

            steady = beat(int(groups / _HEARTBEAT_INTERVAL_S))
            most = beat(_AS_FAST_AS_IT_GOES)
        finally:
            running.stop()
        return {
            "per_second": most["per_second"],
            "p99_ms": steady["p99_ms"],
            "megabytes": filled / 1e6,
            "kilobytes_per_group": max(filled - before, 0) / groups / 1e3,
        }

    return measure


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
        measure=_measure_with(make),
    )


CLASSIC = _workload("many_classic_groups", "classic", make_classic_groups)
CONSUMER = _workload("many_consumer_groups", "consumer-protocol", make_consumer_groups)
