"""The common parts of the rows about rebalances: fifty members, five hundred partitions, one newcomer.

A producer writes to the topic all the time, so a member without records is stopped by the rebalance. An assigned
partition's wait for its first record counts from the assignment, or from the record's write if that is later. Otherwise
the figure would show how often the producer writes. Newcomers join between two heartbeats of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.workload import Figure, Load, SteadyWorkload

__all__ = ["PROTOCOLS", "churn_workload", "rebalance_workload"]

PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "eager": {"consumer.partition.assignment.strategy": "range"},
    "cooperative": {"consumer.partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"consumer.group.protocol": "consumer"},
}
"""librdkafka's settings for each way to rebalance."""
_TITLES = {"eager": "eager", "cooperative": "cooperative", "consumer": "consumer protocol"}
_PARTITIONS = 500
_MEMBERS = 50
_CHURN_PARTITIONS = 100
_RATE = 2000
"""Records a second in total: every member gets records many times a second, and the load is small for every broker."""
_NOT_KAFKA = {
    "tansu": "not a peer in groups of this size",
    "mock": "no broker: it keeps groups in the client's memory",
}
_NOT_STOPPED_MS = 25.0
"""The consumer protocol stops no member. A member's records are this far apart, so shorter stops can't be detected."""
_CONFIG = {"group.initial.rebalance.delay.ms": "0"}


def rebalance_workload(protocol: str) -> SteadyWorkload:
    """Returns the row in which a newcomer joins a group that reads."""

    def prepare(running: RunningPeer, load: Load) -> None:
        _create(running, load, f"rebalanced-{protocol}", _PARTITIONS)

    def measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
        taken = load.programs.run(
            "rebalance",
            bootstrap=running.bootstrap_servers,
            topic=f"rebalanced-{protocol}",
            group=f"rebalanced-{protocol}-{number}",
            partitions=_PARTITIONS,
            members=_MEMBERS if load.scale >= 1 else _MEMBERS // 5,
            rate=_RATE,
            size=100,
            settings={**PROTOCOLS[protocol], "consumer.auto.offset.reset": "latest"},
        )
        return {
            "newcomer_seconds": taken["newcomer_seconds"],
            "rebalance_seconds": taken["rebalance_seconds"],
            "wait_ms": taken["wait_ms"],
            "stopped_ms": max(0.0, taken["wait_ms"] - taken["wait_before_ms"]),
            "moved": taken["assigned"],
            "first_fetch_ms": taken["p50_ms"],
        }

    title = f"Rebalance of 50 members, 500 partitions, {_TITLES[protocol]}"
    return SteadyWorkload(
        name=f"rebalance_{protocol}",
        title=title,
        figures=(
            Figure("newcomer_seconds", "new member owns its share", "s", True, target=1.0, digits=2),
            Figure("rebalance_seconds", "whole rebalance", "s", True, target=1.0, digits=2),
            Figure("wait_ms", "longest wait for a record of a kept partition", "ms", True, target=1.0),
            Figure(
                "stopped_ms",
                "part of this wait that the rebalance added",
                "ms",
                True,
                limit=_NOT_STOPPED_MS if protocol == "consumer" else None,
            ),
            Figure("moved", "partitions assigned", "", True, target=1.0, digits=0),
            Figure("first_fetch_ms", "assignment to first record, p50", "ms", True, target=1.0, digits=2),
        ),
        rounds=5,  # A newcomer's first record happens once a round.
        without=_NOT_KAFKA,
        config=_CONFIG,
        prepare=prepare,
        measure=measure,
    )


def churn_workload(protocol: str) -> SteadyWorkload:
    """Returns the row in which twenty members come and go within ten seconds while ten stay."""

    def prepare(running: RunningPeer, load: Load) -> None:
        _create(running, load, f"churned-{protocol}", _CHURN_PARTITIONS)

    def measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
        taken = load.programs.run(
            "churn",
            bootstrap=running.bootstrap_servers,
            topic=f"churned-{protocol}",
            group=f"churned-{protocol}-{number}",
            partitions=_CHURN_PARTITIONS,
            members=20,
            seconds=10,
            rate=_RATE,
            size=100,
            # A member that leaves while it joins is removed only after its session timeout, by default 45 s.
            settings={**PROTOCOLS[protocol], **_SHORT_SESSIONS.get(protocol, {})},
        )
        return {"moved": taken["assigned"], "rebalances": taken["rebalances"], "seconds": taken["seconds"]}

    title = f"20 members join and leave in 10 s, {_TITLES[protocol]}"
    return SteadyWorkload(
        name=f"churn_{protocol}",
        title=title,
        figures=(
            Figure("rebalances", "rebalances", "", True, target=1.0, digits=0),
            Figure("moved", "partitions assigned", "", True, target=1.0, digits=0),
            Figure("seconds", "until the ten that stay own all partitions again", "s", True, target=1.0, digits=1),
        ),
        rounds=5,  # A member that leaves as a rebalance ends may cost a session timeout.
        without=_NOT_KAFKA,
        config=_CONFIG,
        prepare=prepare,
        measure=measure,
    )


def _create(running: RunningPeer, load: Load, topic: str, partitions: int) -> None:
    """Creates a topic and writes to it for a while, since a broker is slow right after its start."""
    running.create_topic(topic, partitions)
    load.programs.run(
        "produce", bootstrap=running.bootstrap_servers, topic=topic, partitions=partitions, size=100, count=200_000
    )


_SHORT_SESSIONS: Mapping[str, Mapping[str, str]] = {
    "eager": {"consumer.session.timeout.ms": "6000"},
    "cooperative": {"consumer.session.timeout.ms": "6000"},
}
