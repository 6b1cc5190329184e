"""The flow `arrivals` of the demo, from topic to topic: by `klamm pipeline run`, and by hand on Spark's connector.

Both parse JSON, check it, join it with airports and weather, and write dead letters by a second query. Each is a
process of its own, and they take turns. Spark's connector writes at least once only, so klamm's pipeline is measured at
least once, and with its default, exactly once, as well.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from bench.flight_records import FlightLoad, good_of, read_rows
from bench.peers import RunningPeer
from bench.pipeline_process import VARIANTS, PipelineProcess
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOADS"]

_INPUT: Final = "bench-flights"
_OUTPUT: Final = "bench-arrivals"
_COMPARED: Final = ("pipeline", "by_hand", "exactly_once")
_COMPARED_AT_START: Final = ("pipeline", "unprepared", "by_hand", "exactly_once")

_FIRST_ROW_RECORDS: Final = 6_000
_BACKLOG: Final = 1_000_000
_BATCHES: Final = 10
_UNMEASURED_BATCHES: Final = 3
_RATE: Final = 1_000
# As in `spark_through`: in its first minutes a query shares the cores with the JVM's compilers.
_WARM_UP_SECONDS: Final = 60
_SECONDS: Final = 15
_WITHOUT: Final = {"tansu": "it has no transactions", "mock": "it keeps no records"}


def _topics(running: RunningPeer, *names: str) -> None:
    for name in names:
        running.create_topic(name, PARTITIONS)


def _in_turn(variants: Sequence[str], number: int) -> list[str]:
    """Returns the variants in the order of this round: a later one finds more in the page cache."""
    return sorted(variants, reverse=number % 2 == 1)


def _figures(
    key: str,
    unit: str,
    name: str,
    *,
    less_is_better: bool,
    digits: int,
    compared: Sequence[str] = _COMPARED,
) -> tuple[Figure, ...]:
    prefix, title = (f"_{key}", f"{name}, ") if name else ("", "")
    return (
        *(
            Figure(f"{variant}{prefix}", f"{title}{VARIANTS[variant].title}", unit, less_is_better, digits=digits)
            for variant in compared
        ),
        Figure(
            f"ratio{prefix}",
            f"{title}klamm pipeline / by hand",
            "x",
            less_is_better,
            limit=1.0,
            digits=2,
            of=(f"pipeline{prefix}", f"by_hand{prefix}"),
        ),
    )


def _prepare_backlog(running: RunningPeer, count: int) -> None:
    _topics(running, _INPUT)
    FlightLoad(running.bootstrap_servers, _INPUT).write(count)


def _prepare_first_row(running: RunningPeer, load: Load) -> None:
    subprocess.run([sys.executable, "-m", "klamm.cli", "pipeline", "prepare"], check=True, capture_output=True)
    _prepare_backlog(running, _FIRST_ROW_RECORDS)


def _measure_first_row(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    for variant in _in_turn(_COMPARED_AT_START, number):
        output = f"{_OUTPUT}-{variant}-{number}"
        _topics(running, output, f"{output}.dead-letters")
        started = time.monotonic()
        with PipelineProcess(variant, running.bootstrap_servers, _INPUT, output) as process:
            next(read_rows(running.bootstrap_servers, output, 1, process.failure))
            figures[variant] = time.monotonic() - started
            figures[f"{variant}_cpu_seconds"] = process.cpu_seconds
    return {**figures, "ratio": figures["pipeline"] / figures["by_hand"]}


def _measure_backlog(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    count = load.scaled(_BACKLOG)
    rows = good_of(count)
    first = rows * _UNMEASURED_BATCHES // _BATCHES
    for variant in _in_turn((*_COMPARED, "drop"), number):
        output = f"{_OUTPUT}-{variant}-{number}"
        _topics(running, output, f"{output}.dead-letters")
        batch = -(-count // _BATCHES)
        with PipelineProcess(variant, running.bootstrap_servers, _INPUT, output, batch) as process:
            arrived = read_rows(running.bootstrap_servers, output, rows, process.failure)
            for _ in range(first):
                _, began = next(arrived)
            used = process.cpu_seconds
            ended = max(at for _, at in arrived)
            figures[variant] = (rows - first) / ((ended - began) / 1e9)
            figures[f"{variant}_cpu_seconds"] = process.cpu_seconds - used
        running.delete_topic(output)
    figures["ratio"] = figures["pipeline"] / figures["by_hand"]
    figures["dead_letters"] = figures["pipeline_cpu_seconds"] / figures["drop_cpu_seconds"]
    return figures


def _measure_latency(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    warm_up, measured = _RATE * load.scaled(_WARM_UP_SECONDS), _RATE * load.scaled(_SECONDS)
    count = warm_up + measured
    for variant in _in_turn(_COMPARED, number):
        read, written = f"{_INPUT}-{variant}-{number}", f"{_OUTPUT}-{variant}-{number}"
        _topics(running, read, written, f"{written}.dead-letters")
        flights = FlightLoad(running.bootstrap_servers, read)
        with PipelineProcess(variant, running.bootstrap_servers, read, written) as process:
            flights.write(1)  # once it has arrived, the pipeline runs
            next(read_rows(running.bootstrap_servers, written, 1, process.failure))
            thread = flights.write_in_background(count, _RATE)
            rows = list(
                read_rows(running.bootstrap_servers, written, good_of(count) + 1, process.failure, one_by_one=True)
            )
            thread.join()
            latencies_ms = [(arrived - due) / 1e6 for due, arrived in rows[-good_of(measured) :]]
            percentiles = statistics.quantiles(latencies_ms, n=20)
            figures[f"{variant}_p50"], figures[f"{variant}_p95"] = percentiles[9], percentiles[18]
    for percentile in ("p50", "p95"):
        figures[f"ratio_{percentile}"] = figures[f"pipeline_{percentile}"] / figures[f"by_hand_{percentile}"]
    return figures


WORKLOADS = (
    SteadyWorkload(
        name="pipeline_backlog",
        title=f"A pipeline through {_BACKLOG:,} flights",
        figures=(
            *_figures("", "rows/s", "", less_is_better=False, digits=0),
            Figure(
                "dead_letters",
                "processor time, klamm pipeline with dead letters / without",
                "x",
                less_is_better=True,
                digits=2,
                of=("pipeline_cpu_seconds", "drop_cpu_seconds"),
            ),
        ),
        rounds=3,
        without=_WITHOUT,
        prepare=lambda running, load: _prepare_backlog(running, load.scaled(_BACKLOG)),
        measure=_measure_backlog,
    ),
    SteadyWorkload(
        name="pipeline_latency",
        title=f"A pipeline, {_RATE:,} flights/s",
        figures=(
            *_figures("p50", "ms", "p50", less_is_better=True, digits=0),
            *_figures("p95", "ms", "p95", less_is_better=True, digits=0),
        ),
        rounds=3,
        without=_WITHOUT,
        measure=_measure_latency,
    ),
    SteadyWorkload(
        name="pipeline_first_row",
        title="Start of a pipeline to its first row",
        figures=_figures("", "s", "", less_is_better=True, digits=2, compared=_COMPARED_AT_START),
        rounds=5,
        without=_WITHOUT,
        prepare=_prepare_first_row,
        measure=_measure_first_row,
    ),
)
