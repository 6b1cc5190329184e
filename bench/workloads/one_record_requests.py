"""Requests with one record each: the cost of a request, independent of its content.

librdkafka sends each record by itself (`batch.num.messages=1`, no linger) and keeps many requests in flight, as an
unconfigured producer without idempotence does.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOAD"]

_COUNT = 60_000
_SETTINGS = {"acks": "all", "linger.ms": "0", "batch.num.messages": "1"}


def _requests(running: RunningPeer, load: Load, topic: str) -> Mapping[str, float]:
    running.create_topic(topic, PARTITIONS)
    taken = load.programs.run(
        "produce",
        bootstrap=running.bootstrap_servers,
        topic=topic,
        settings=_SETTINGS,
        partitions=PARTITIONS,
        size=100,
        count=load.scaled(_COUNT),
    )
    running.delete_topic(topic)
    return {
        "requests_per_second": taken["records"] / taken["seconds"],
        "client_cpu_share": taken["client_cpu_seconds"] / taken["seconds"],
    }


def _prepare(running: RunningPeer, load: Load) -> None:
    _requests(running, load, "warm-up")


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    return _requests(running, load, f"round-{number}")


WORKLOAD = SteadyWorkload(
    name="one_record_requests",
    title="One-record requests",
    section="Produce",
    figures=(Figure("requests_per_second", "one record in each request", "requests/s", target=1.0, digits=0),),
    rounds=5,
    prepare=_prepare,
    measure=_measure,
)
