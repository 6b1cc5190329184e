"""The time from the start of the process to its first response that a client can use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.peers import Peer
from bench.workload import Figure, LifeWorkload, Load

__all__ = ["WORKLOAD"]


def _measure(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    running = peer.start(folder, {})
    running.stop()
    return {"seconds": running.seconds_to_first_answer}


WORKLOAD = LifeWorkload(
    name="start",
    title="Start of the process to its first answer",
    section="Start and memory",
    figures=(
        Figure("seconds", "start of the process to its first answer", "s", less_is_better=True, target=0.1, digits=3),
    ),
    rounds=5,
    measure=_measure,
)
