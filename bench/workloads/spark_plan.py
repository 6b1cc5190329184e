"""How long Spark plans a read of 1,000 partitions: klamm's source and Spark's connector, on both brokers.

Each source has a process of its own. Both plan once unmeasured, since the row `spark_first_row` already shows the start
of the JVM and the Python process. Then they take turns, and no query runs while the other source plans.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.spark.run import SparkProgram
from bench.spark.sources import SOURCES
from bench.workload import Figure, Load, SteadyWorkload

__all__ = ["WORKLOAD"]

_PARTITIONS = 1_000
_TOPIC = "many-partitions"
# The target for the planning time.
_LIMIT_S = 1.0

_programs: dict[tuple[str, str], SparkProgram] = {}
"""The programs by the broker's address and the source."""


def _prepare(running: RunningPeer, load: Load) -> None:
    running.create_topic(_TOPIC, _PARTITIONS)
    _fill(running, load)
    for source in SOURCES:
        _programs[running.bootstrap_servers, source] = SparkProgram(
            "plan", running.bootstrap_servers, _TOPIC, _PARTITIONS, source
        )
        _plan(running, load, source)


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    for source in sorted(SOURCES, reverse=number % 2 == 1):
        for key, seconds in _plan(running, load, source).items():
            figures[f"{source}_{key}"] = seconds
    return figures


def _finish(running: RunningPeer) -> None:
    for source in SOURCES:
        program = _programs.pop((running.bootstrap_servers, source), None)
        if program is not None:
            program.kill()


def _plan(running: RunningPeer, load: Load, source: str) -> Mapping[str, float]:
    program = _programs[running.bootstrap_servers, source]
    program.go_on()
    program.wait_for("reading")
    _fill(running, load)
    program.go_on()
    return program.figures()


def _fill(running: RunningPeer, load: Load) -> None:
    """Writes a record into each partition."""
    load.programs.run(
        "fill",
        bootstrap=running.bootstrap_servers,
        topic=_TOPIC,
        partitions=_PARTITIONS,
        size=100,
        count=_PARTITIONS,
        rate=10_000,  # with a rate, the program writes to the partitions in turn
    )


def _figures(key: str, what: str) -> tuple[Figure, ...]:
    return (
        Figure(f"klamm_{key}", f"{what}, klamm's source", "s", less_is_better=True, limit=_LIMIT_S, digits=2),
        Figure(f"connector_{key}", f"{what}, connector", "s", less_is_better=True, digits=2),
    )


WORKLOAD = SteadyWorkload(
    name="spark_plan",
    title="Planning of a topic with 1,000 partitions",
    figures=(*_figures("batch", "batch read"), *_figures("micro_batch", "micro-batch")),
    rounds=3,
    without={"tansu": "the Spark rows compare sources, on two brokers", "mock": "it keeps no records"},
    prepare=_prepare,
    measure=_measure,
    finish=_finish,
)
