"""Produce records of 1 KB with acks=all, in each mode of `klamm.fsync`.

Apache Kafka's nearest counterparts: `log.flush.interval.ms` for an interval, and `log.flush.interval.messages=1`, a
sync for each batch, for responses that wait for the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.peers import Peer
from bench.peers.klamm import Klamm
from bench.workload import Figure, LifeWorkload, Load
from bench.workloads.throughput import produce_all

__all__ = ["WORKLOAD"]

_SIZE_BYTES: Final = 1000
_COUNT: Final = 1_000_000
# Each broker is new, and a JVM needs some seconds of work before its compilers are done.
_WARM_UP: Final = 500_000
_NO_SYNC: Final = "has no such promise"

_MODES: Final[Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]] = {
    "os": ({"klamm.fsync": "os"}, {}),
    "interval": (
        {"klamm.fsync": "interval"},
        {"log.flush.interval.ms": "1000", "log.flush.scheduler.interval.ms": "1000"},
    ),
    "ack": ({"klamm.fsync": "ack"}, {"log.flush.interval.messages": "1"}),
}
"""By klamm's name of the mode: klamm's settings, and Apache Kafka's."""


def _measure(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    figures = {}
    for mode, (own, others) in _MODES.items():
        mode_folder = folder / mode
        mode_folder.mkdir()
        running = peer.start(mode_folder, own if isinstance(peer, Klamm) else others)
        try:
            produce_all(running, load, "warm-up", size_bytes=_SIZE_BYTES, count=load.scaled(_WARM_UP))
            speed = produce_all(running, load, "measured", size_bytes=_SIZE_BYTES, count=load.scaled(_COUNT))
        finally:
            running.stop()
        figures[mode] = speed["megabytes_per_second"]
    return figures


WORKLOAD = LifeWorkload(
    name="fsync_modes",
    title="Produce 1 KB records with each kind of sync",
    figures=(
        Figure("os", "synced by the operating system", "MB/s", target=1.0),
        Figure("interval", "synced each second", "MB/s", target=1.0),
        Figure("ack", "synced before the answer", "MB/s", target=1.0),
    ),
    rounds=3,
    without={"tansu": _NO_SYNC, "mock": _NO_SYNC},
    measure=_measure,
)
