"""The time from the creation of a consumer in a new group to its first record.

`group.initial.rebalance.delay.ms` is 0 on both sides: its default of three seconds would hide the difference.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOAD"]

_TOPIC = "to-read"


def _first_record(running: RunningPeer, load: Load, group: str) -> Mapping[str, float]:
    taken = load.programs.run("first_record", bootstrap=running.bootstrap_servers, topic=_TOPIC, group=group)
    return {"seconds": taken["seconds"]}


def _prepare(running: RunningPeer, load: Load) -> None:
    running.create_topic(_TOPIC, PARTITIONS)
    load.programs.run(
        "produce", bootstrap=running.bootstrap_servers, topic=_TOPIC, partitions=PARTITIONS, size=100, count=10_000
    )
    _first_record(running, load, "warm-up")


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    return _first_record(running, load, f"round-{number}")


WORKLOAD = SteadyWorkload(
    name="group_first_record",
    title="New group to its first record",
    section="Latency",
    figures=(Figure("seconds", "new group to its first record", "s", less_is_better=True, target=1.0, digits=3),),
    rounds=3,
    config={"group.initial.rebalance.delay.ms": "0"},
    prepare=_prepare,
    measure=_measure,
)
