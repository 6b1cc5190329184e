"""The disk space of commits: bytes in `__consumer_offsets` for 1,000 commits of 100 partitions.

One member of a group commits all its partitions in three ways: the same offsets again and again, as idle consumers with
auto-commit do; new offsets in each commit, each waiting for its response, as consumers do that commit every second
while they consume; and bursts of asynchronous commits, of which only the last matters. The records of the group itself
count, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.peers import Peer
from bench.workload import Figure, LifeWorkload, Load

__all__ = ["LZ4", "STOCK"]

_PARTITIONS = 100
_COMMITS = 1000
_NO_TOPIC = "it keeps no offsets in __consumer_offsets"


class _Commits(NamedTuple):
    """How a consumer commits: `burst` commits at once, each `step` records further than the previous one."""

    name: str
    title: str
    burst: int
    step: int
    target: float


_KINDS = (
    _Commits("idle", "same offsets", 1, 0, 0.5),
    _Commits("moving", "new offsets", 1, 1000, 1.0),
    _Commits("bursts", "new offsets, bursts of 50", 50, 10, 0.5),
)


def _bytes_written(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("data/__consumer_offsets-*/*.log"))


def _measure(codec: str, peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    config = {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.compression.codec": codec,
        "group.initial.rebalance.delay.ms": "0",
    }
    commits = load.scaled(_COMMITS)
    figures = {}
    running = peer.start(folder, config)
    try:
        running.create_topic("moved", _PARTITIONS)
        for kind in _KINDS:
            before = _bytes_written(folder)
            taken = load.programs.run(
                "commit",
                bootstrap=running.bootstrap_servers,
                topic="moved",
                group=f"consumers-{kind.name}",
                partitions=_PARTITIONS,
                count=commits,
                burst=kind.burst,
                step=kind.step,
            )
            figures[f"{kind.name}_kilobytes"] = (_bytes_written(folder) - before) / commits
            figures[f"{kind.name}_milliseconds"] = taken["seconds"] / commits * 1000
    finally:
        running.stop()
    return figures


def _figures() -> Iterator[Figure]:
    less = partial(Figure, less_is_better=True)
    for kind in _KINDS:
        yield less(f"{kind.name}_kilobytes", f"size of 1,000 commits, {kind.title}", "kB", target=kind.target)
    for kind in _KINDS:
        yield less(f"{kind.name}_milliseconds", f"time of a commit, {kind.title}", "ms", target=1.0, digits=2)


def _workload(name: str, codec: str, title: str) -> LifeWorkload:
    return LifeWorkload(
        name=name,
        title=f"Commits of 100 partitions, {title}",
        figures=tuple(_figures()),
        rounds=3,
        without={"tansu": _NO_TOPIC, "mock": _NO_TOPIC},
        measure=partial(_measure, codec),
    )


STOCK = _workload("commit_bytes", "0", "not compressed")
LZ4 = _workload("commit_bytes_lz4", "3", "lz4")
