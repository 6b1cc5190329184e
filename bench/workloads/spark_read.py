"""Ten million records of 100 bytes from the log into Spark: klamm's source and Spark's connector, on both brokers.

The table's columns are the brokers. Both sources read from each broker in turn, in one session.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.spark.run import SparkProgram
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["PLAIN", "ZSTD"]

_RECORDS = 10_000_000
_TOPIC = "to-spark"


def _prepare(running: RunningPeer, load: Load, codec: str) -> None:
    running.create_topic(_TOPIC, PARTITIONS)
    load.programs.run(
        "fill",
        bootstrap=running.bootstrap_servers,
        topic=_TOPIC,
        partitions=PARTITIONS,
        size=100,
        count=load.scaled(_RECORDS),
        settings={"linger.ms": "5", "compression.type": codec},
    )


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    with SparkProgram("read_all", running.bootstrap_servers, _TOPIC, load.scaled(_RECORDS)) as program:
        return {**program.figures()}


def _figures() -> tuple[Figure, ...]:
    return tuple(
        figure
        for key, name in (("count", "count()"), ("group", "groupBy"))
        for figure in (
            Figure(f"klamm_{key}", f"{name}, klamm's source", "records/s", digits=0),
            Figure(f"connector_{key}", f"{name}, connector", "records/s", digits=0),
            Figure(
                f"ratio_{key}",
                f"{name}, klamm's source / connector",
                "x",
                limit=1.0,
                digits=2,
                of=(f"klamm_{key}", f"connector_{key}"),
            ),
        )
    )


_WITHOUT = {"tansu": "the Spark rows compare sources, on two brokers", "mock": "it keeps no records"}

PLAIN = SteadyWorkload(
    name="spark_read",
    title="Read 10,000,000 records of 100 bytes",
    figures=_figures(),
    rounds=2,
    without=_WITHOUT,
    prepare=lambda running, load: _prepare(running, load, "none"),
    measure=_measure,
)

ZSTD = SteadyWorkload(
    name="spark_read_zstd",
    title="Read 10,000,000 records of 100 bytes, zstd",
    figures=_figures(),
    rounds=2,
    without=_WITHOUT,
    prepare=lambda running, load: _prepare(running, load, "zstd"),
    measure=_measure,
)
