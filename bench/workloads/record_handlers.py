"""Handlers of records: `klamm.worker` next to other clients of Python and to Parallel Consumer, on the same broker.

All clients handle the same records with a handler that waits for 0, 1 or 5 ms, as many as 128 at once. There are 100
keys, and one hot key with a share of 5 %. It bounds clients that keep the order of keys: at 5 ms to 4,000 records a
second. Latency is measured at four fifths of the rate that the same client has reached in the same round.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from bench.peers import PeerUnavailable, RunningPeer
from bench.record_clients import TITLES, available_clients, run_client
from bench.record_producer import produce, start_producer
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOADS"]

_SECTION: Final = "Handlers of records"
_COUNTS: Final = {0: 400_000, 1: 40_000, 5: 20_000}
_COUNTS_OF_SLOW: Final[Mapping[str, Mapping[int, int]]] = {
    "plain": {1: 8_000, 5: 2_000},
    "faststream": {0: 40_000},
}
"""Fewer records for clients that would need minutes: the plain loop handles one record after another, and FastStream
about 1,500 records in a second."""
_LATENCY_SECONDS: Final = 15
_LOAD: Final = 0.8
_START_SECONDS: Final = 6
"""How long a client may take to join its group before the paced records come."""
_WITHOUT: Final = {
    "tansu": "the rows compare clients of one broker",
    "mock": "the rows compare clients of one broker",
}


def _prepare(handler_ms: int, running: RunningPeer, load: Load) -> None:
    available_clients()
    topic = f"handlers-{handler_ms}"
    running.create_topic(topic, PARTITIONS)
    produce(running.bootstrap_servers, topic, load.scaled(_COUNTS[handler_ms]))


def _measure(handler_ms: int, running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    clients = available_clients()
    for client in clients if number % 2 else reversed(clients):
        try:
            figures |= _measure_client(client, handler_ms, running, load, number)
        except (PeerUnavailable, subprocess.TimeoutExpired) as error:
            print(f"{TITLES[client]} is left out of this round: {error}", file=sys.stderr)
    for figure in _ratios(handler_ms):
        own, other = figure.of or ("", "")
        if own in figures and other in figures:
            figures[figure.key] = figures[own] / figures[other]
    return figures


def _measure_client(client: str, handler_ms: int, running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    count = _COUNTS_OF_SLOW.get(client, {}).get(handler_ms, _COUNTS[handler_ms])
    found = run_client(
        client,
        bootstrap=running.bootstrap_servers,
        topic=f"handlers-{handler_ms}",
        group=f"{client}-{handler_ms}-{number}",
        count=load.scaled(count),
        handler_ms=handler_ms,
    )
    figures = {client: found["records_per_second"], f"{client}_cpu": found["cpu_microseconds"]}
    if handler_ms == 5:
        figures[f"{client}_p99"] = _latency(client, running, found["records_per_second"] * _LOAD, number)
    return figures


def _latency(client: str, running: RunningPeer, rate: float, number: int) -> float:
    topic = f"paced-{client}-{number}"
    running.create_topic(topic, PARTITIONS)
    count = int(rate * _LATENCY_SECONDS)
    producer = start_producer(running.bootstrap_servers, topic, count, rate, _START_SECONDS)
    try:
        return run_client(
            client,
            bootstrap=running.bootstrap_servers,
            topic=topic,
            group=topic,
            count=count,
            handler_ms=5,
            has_latency=True,
        )["p99_ms"]
    finally:
        producer.kill()
        producer.wait()
        running.delete_topic(topic)


def _figures(handler_ms: int) -> tuple[Figure, ...]:
    work = f"handler of {handler_ms} ms"
    rates = [Figure(name, f"{work}, {title}", "records/s", digits=0) for name, title in TITLES.items()]
    cpu = [
        Figure(f"{name}_cpu", f"{work}, processor time of a record, {title}", "µs", less_is_better=True)
        for name, title in TITLES.items()
    ]
    if handler_ms != 5:
        return (*rates, *cpu, *_ratios(handler_ms))
    latency = [
        Figure(
            f"{name}_p99",
            f"{work}, 99th percentile at 80 % load, {title}",
            "ms",
            less_is_better=True,
            limit=10.0 if name == "worker" else None,
        )
        for name, title in TITLES.items()
    ]
    return (*rates, *cpu, *latency, *_ratios(handler_ms))


def _ratios(handler_ms: int) -> tuple[Figure, ...]:
    """Compares each of klamm's clients with the one that promises the same."""
    pairs = [("of_plain", "worker", "plain", 0.3)]
    if handler_ms:
        pairs = [("of_java", "worker", "parallel_consumer", 1.0), ("of_tasks", "unordered", "tasks", 1.0)]
    return tuple(
        Figure(
            key,
            f"handler of {handler_ms} ms, {TITLES[own]} / {TITLES[other]}",
            "x",
            limit=limit,
            digits=2,
            of=(own, other),
        )
        for key, own, other, limit in pairs
    )


def _row(handler_ms: int) -> SteadyWorkload:
    return SteadyWorkload(
        name=f"handlers_{handler_ms}_ms",
        title=f"Handlers of records: {handler_ms} ms",
        section=_SECTION,
        figures=_figures(handler_ms),
        rounds=3,
        without=_WITHOUT,
        prepare=lambda running, load: _prepare(handler_ms, running, load),
        measure=lambda running, load, number: _measure(handler_ms, running, load, number),
    )


WORKLOADS: Final = tuple(_row(handler_ms) for handler_ms in _COUNTS)
"""In this order: handlers of 0, 1 and 5 ms."""
