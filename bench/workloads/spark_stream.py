"""From a record's production to its arrival in a streaming query's sink: klamm's source beside Spark's connector.

The session is klamm's, with fast checkpoints, for both. A record is 100 bytes; the query has a process of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial

from bench.peers import RunningPeer
from bench.spark.run import SparkProgram
from bench.spark.sources import SOURCES
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOADS"]

_SECONDS = 20
# A query runs for days. In its first minutes the compilers of the JVM share two cores with it: p50 at 1,000 records a
# second fell from 96 to 42 ms with klamm's source between a quarter of a minute and two minutes.
_WARM_UP_SECONDS = 90
# What the target says: p50 at 1,000 records a second without state.
_LIMIT_MS = 60.0


def _fill(running: RunningPeer, load: Load, topic: str, rate: int, seconds: float) -> None:
    load.programs.run(
        "fill",
        bootstrap=running.bootstrap_servers,
        topic=topic,
        partitions=PARTITIONS,
        size=100,
        rate=rate,
        count=int(rate * seconds),
        settings={"linger.ms": "1"},
    )


def _measure(running: RunningPeer, load: Load, number: int, *, rate: int, state: str) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    seconds, warm_up_seconds = load.scaled(_SECONDS), load.scaled(_WARM_UP_SECONDS)
    for source in SOURCES:
        topic = f"stream-{rate}-{state}-{source}-{number}"
        running.create_topic(topic, PARTITIONS)
        with SparkProgram("stream", running.bootstrap_servers, topic, source, state, seconds) as program:
            _fill(running, load, topic, rate, 0.1)
            program.wait_for("reading")
            flow = threading.Thread(
                target=_fill, args=(running, load, topic, rate, warm_up_seconds + seconds + 3), daemon=True
            )
            flow.start()
            flow.join(warm_up_seconds)
            program.go_on()
            for key, value in program.figures().items():
                figures[f"{source}_{key}"] = value
            flow.join()
        running.delete_topic(topic)
    for percentile in ("p50", "p95"):
        figures[f"ratio_{percentile}"] = figures[f"klamm_{percentile}"] / figures[f"connector_{percentile}"]
    return figures


def _workload(rate: int, state: str) -> SteadyWorkload:
    title = f"Streaming query, {rate:,} records/s, state {state}"
    return SteadyWorkload(
        name=f"spark_stream_{rate}_{state}",
        title=title,
        figures=tuple(
            figure
            for percentile in ("p50", "p95")
            for figure in (
                Figure(
                    f"klamm_{percentile}",
                    f"{title}: {percentile}, klamm's source",
                    "ms",
                    less_is_better=True,
                    limit=_LIMIT_MS if (rate, state, percentile) == (1_000, "off", "p50") else None,
                    digits=0,
                ),
                Figure(
                    f"connector_{percentile}", f"{title}: {percentile}, connector", "ms", less_is_better=True, digits=0
                ),
                Figure(
                    f"ratio_{percentile}",
                    f"{title}: {percentile}, klamm's source / connector",
                    "x",
                    less_is_better=True,
                    limit=1.0,
                    digits=2,
                ),
            )
        ),
        rounds=1,
        without={"tansu": "the Spark rows compare sources, on two brokers", "mock": "it keeps no records"},
        measure=partial(_measure, rate=rate, state=state),
    )


WORKLOADS = tuple(_workload(rate, state) for rate in (1_000, 100_000) for state in ("off", "on"))
