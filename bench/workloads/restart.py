"""How long a broker takes to restart after a clean stop: 1,000 partitions with 10 GB.

The bench waits for the stop, which syncs the remaining data. The time counts from the creation of the process to the
first Metadata response that names a broker. The files are in the page cache, as far as they fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.peers import Peer
from bench.workload import Figure, LifeWorkload, Load
from bench.workloads.throughput import produce_all

__all__ = ["WORKLOAD"]

_PARTITIONS = 1000
_RECORDS = 10_000_000
_RECORD_BYTES = 1000
_STOP_SECONDS = 300
_NO_DISK = "it keeps nothing over a restart"


def _measure(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    running = peer.start(folder, {})
    try:
        produce_all(
            running,
            load,
            "held",
            size_bytes=_RECORD_BYTES,
            count=load.scaled(_RECORDS),
            partitions=_PARTITIONS,
        )
        running.process.terminate()
        running.process.wait(_STOP_SECONDS)
    finally:
        running.stop()
    running = peer.start(folder, {})
    running.stop()
    return {"seconds": running.seconds_to_first_answer}


WORKLOAD = LifeWorkload(
    name="restart",
    title="Restart after a clean stop",
    figures=(Figure("seconds", "1,000 partitions, 10 GB", "s", less_is_better=True, limit=3, digits=2),),
    rounds=2,
    without={"tansu": _NO_DISK, "mock": _NO_DISK},
    measure=_measure,
)
