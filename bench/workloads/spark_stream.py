"""From a record's production to its arrival in a streaming query's sink: klamm's source and Spark's connector.

Both use klamm's session with fast checkpoints. A record has 100 bytes. Each source has a process of its own with its
query. Both are warmed up, and then they take turns: while one is measured, the other one's query is stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.spark.run import SparkProgram
from bench.spark.sources import SOURCES
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOADS"]

_SECONDS = 20
# In practice a query runs for days. In its first minutes it shares two cores with the JVM's compilers: with klamm's
# source, p50 at 1,000 records a second fell from 96 to 42 ms between a quarter of a minute and two minutes.
_WARM_UP_SECONDS = 90
# A query that continues starts its Python workers again.
_SETTLE_SECONDS = 5
# The flow of records continues for a little longer than the measurement.
_SLACK_SECONDS = 1
# The target: p50 at 1,000 records a second without state.
_LIMIT_MS = 60.0


class _Stream:
    """Queries over records that arrive at this rate, with state or without."""

    def __init__(self, rate: int, state: str) -> None:
        self._rate = rate
        self._state = state
        self._programs: dict[tuple[str, str], SparkProgram] = {}
        """The programs by the broker's address and the source."""

    def workload(self) -> SteadyWorkload:
        """Returns the row."""
        return SteadyWorkload(
            name=f"spark_stream_{self._rate}_{self._state}",
            title=self._title,
            figures=(*self._figures("p50"), *self._figures("p95")),
            rounds=3,
            without={"tansu": "the Spark rows compare sources, on two brokers", "mock": "it keeps no records"},
            prepare=self._prepare,
            measure=self._measure,
            finish=self._finish,
        )

    @property
    def _title(self) -> str:
        return f"Streaming query, {self._rate:,} records/s, state {self._state}"

    def _figures(self, percentile: str) -> tuple[Figure, ...]:
        is_limited = (self._rate, self._state, percentile) == (1_000, "off", "p50")
        limit = _LIMIT_MS if is_limited else None
        return (
            Figure(f"klamm_{percentile}", f"{percentile}, klamm's source", "ms", True, limit=limit, digits=0),
            Figure(f"connector_{percentile}", f"{percentile}, connector", "ms", True, digits=0),
            Figure(
                f"ratio_{percentile}",
                f"{percentile}, klamm's source / connector",
                "x",
                less_is_better=True,
                limit=1.0,
                digits=2,
                of=(f"klamm_{percentile}", f"connector_{percentile}"),
            ),
        )

    def _prepare(self, running: RunningPeer, load: Load) -> None:
        for source in SOURCES:
            running.create_topic(self._topic(source), PARTITIONS)
            self._programs[running.bootstrap_servers, source] = SparkProgram(
                "stream",
                running.bootstrap_servers,
                self._topic(source),
                source,
                self._state,
                load.scaled(_SECONDS),
            )
            self._listen(running, load, source, load.scaled(_WARM_UP_SECONDS))

    def _measure(self, running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for source in sorted(SOURCES, reverse=number % 2 == 1):
            for key, value in self._listen(running, load, source, _SETTLE_SECONDS).items():
                figures[f"{source}_{key}"] = value
        for percentile in ("p50", "p95"):
            figures[f"ratio_{percentile}"] = figures[f"klamm_{percentile}"] / figures[f"connector_{percentile}"]
        return figures

    def _finish(self, running: RunningPeer) -> None:
        for source in SOURCES:
            program = self._programs.pop((running.bootstrap_servers, source), None)
            if program is not None:
                program.kill()

    def _listen(self, running: RunningPeer, load: Load, source: str, before_seconds: float) -> Mapping[str, float]:
        """Returns a query's figures for a flow of records that began `before_seconds` before the measurement."""
        program = self._programs[running.bootstrap_servers, source]
        topic = self._topic(source)
        program.go_on()
        # A few records first: the program waits until the query has read some.
        self._flow(running, load, topic, 0.1).join()
        program.wait_for("reading")
        flow = self._flow(running, load, topic, before_seconds + load.scaled(_SECONDS) + _SLACK_SECONDS)
        flow.join(before_seconds)
        program.go_on()
        figures = program.figures()
        flow.join()
        return figures

    def _topic(self, source: str) -> str:
        return f"stream-{self._rate}-{self._state}-{source}"

    def _flow(self, running: RunningPeer, load: Load, topic: str, seconds: float) -> threading.Thread:
        """Starts a thread that produces records at the rate for `seconds`."""

        def fill() -> None:
            load.programs.run(
                "fill",
                bootstrap=running.bootstrap_servers,
                topic=topic,
                partitions=PARTITIONS,
                size=100,
                rate=self._rate,
                count=int(self._rate * seconds),
                settings={"linger.ms": "1"},
            )

        flow = threading.Thread(target=fill, daemon=True)
        flow.start()
        return flow


WORKLOADS = tuple(_Stream(rate, state).workload() for rate in (1_000, 100_000) for state in ("off", "on"))
