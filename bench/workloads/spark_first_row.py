"""The time from the start of a Python process to the first row of a topic in Spark, including the session."""

from __future__ import annotations

import time
from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.spark.run import SparkProgram
from bench.spark.sources import SOURCES
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOAD"]

_TOPIC = "first-row"


def _prepare(running: RunningPeer, load: Load) -> None:
    running.create_topic(_TOPIC, PARTITIONS)
    load.programs.run(
        "fill", bootstrap=running.bootstrap_servers, topic=_TOPIC, partitions=PARTITIONS, size=100, count=60_000
    )


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    # The second source finds more in the page cache, so the order alternates.
    for source in sorted(SOURCES, reverse=number % 2 == 1):
        started = time.monotonic()
        with SparkProgram("first_row", running.bootstrap_servers, _TOPIC, source) as program:
            program.figures()
            figures[source] = time.monotonic() - started
    return {**figures, "ratio": figures["klamm"] / figures["connector"]}


WORKLOAD = SteadyWorkload(
    name="spark_first_row",
    title="Start of a Spark program to its first row",
    figures=(
        Figure("klamm", "klamm's source", "s", less_is_better=True, digits=2),
        Figure("connector", "connector", "s", less_is_better=True, digits=2),
        Figure(
            "ratio",
            "klamm's source / connector",
            "x",
            less_is_better=True,
            limit=1.0,
            digits=2,
            of=("klamm", "connector"),
        ),
    ),
    rounds=5,
    without={"tansu": "the Spark rows compare sources, on two brokers", "mock": "it keeps no records"},
    prepare=_prepare,
    measure=_measure,
)
