"""From a topic through a streaming query to another topic: klamm's source and sink, and those of Spark's connector.

A record has 100 bytes and holds the time at which it was due at its producer. A consumer of the second topic measures
the time from there to its arrival. The queries run in klamm's session with fast checkpoints, one at a time, and take
turns. A third query has the connector's source and klamm's sink: it differs from the connector's query only in the
sink. All but the last query write at least once.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.measure import cpu_seconds
from bench.peers import RunningPeer
from bench.spark.run import SparkProgram
from bench.spark.through import PATHS
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOADS"]

_SECONDS = 15
# As in `spark_stream`: in its first minutes a query shares the cores with the JVM's compilers.
_WARM_UP_SECONDS = 60
# A query that continues starts its Python workers again.
_SETTLE_SECONDS = 5
_TITLES = {
    "klamm": "klamm's source and sink",
    "connector": "connector's source and sink",
    "klamm_sink": "connector's source, klamm's sink",
    "exactly_once": "klamm's source and sink, exactly once",
}


class _Through:
    """Queries over records that arrive at this rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._programs: dict[str, SparkProgram] = {}
        """The programs by the broker's address."""

    def workload(self) -> SteadyWorkload:
        """Returns the row."""
        return SteadyWorkload(
            name=f"spark_through_{self._rate}",
            title=f"From topic to topic, {self._rate:,} records/s",
            figures=(*self._figures("p50"), *self._figures("p95")),
            rounds=3,
            without={
                "tansu": "the Spark rows compare sinks, on two brokers",
                "mock": "it does not run Spark's queries",
            },
            prepare=self._prepare,
            measure=self._measure,
            finish=self._finish,
        )

    def _figures(self, percentile: str) -> tuple[Figure, ...]:
        return (
            *(Figure(f"{path}_{percentile}", f"{percentile}, {_TITLES[path]}", "ms", True, digits=0) for path in PATHS),
            Figure(
                f"ratio_{percentile}",
                f"{percentile}, klamm / connector",
                "x",
                less_is_better=True,
                limit=1.0,
                digits=2,
                of=(f"klamm_{percentile}", f"connector_{percentile}"),
            ),
        )

    def _prepare(self, running: RunningPeer, load: Load) -> None:
        self._programs[running.bootstrap_servers] = SparkProgram("through", running.bootstrap_servers)
        for path in PATHS:
            for topic in self._topics(path):
                running.create_topic(topic, PARTITIONS)
            self._run(running, load, path, load.scaled(_WARM_UP_SECONDS), 1)

    def _measure(self, running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        program = self._programs[running.bootstrap_servers]
        for path in sorted(PATHS, reverse=number % 2 == 1):
            used = cpu_seconds(program.process_id)
            taken = self._run(running, load, path, _SETTLE_SECONDS, load.scaled(_SECONDS))
            figures[f"{path}_cpu_seconds"] = cpu_seconds(program.process_id) - used
            for percentile in ("p50", "p95"):
                figures[f"{path}_{percentile}"] = taken[f"{percentile}_ms"]
            figures[f"{path}_batches"] = taken["batches"]
        for percentile in ("p50", "p95"):
            figures[f"ratio_{percentile}"] = figures[f"klamm_{percentile}"] / figures[f"connector_{percentile}"]
        return figures

    def _finish(self, running: RunningPeer) -> None:
        program = self._programs.pop(running.bootstrap_servers, None)
        if program is not None:
            program.kill()

    def _topics(self, path: str) -> tuple[str, str]:
        return f"into-{path}", f"out-of-{path}"

    def _run(
        self, running: RunningPeer, load: Load, path: str, settle_seconds: int, seconds: int
    ) -> Mapping[str, float]:
        """Runs a query over a flow of records. Returns the latencies after `settle_seconds`, and the micro-batches."""
        program = self._programs[running.bootstrap_servers]
        read_topic, written_topic = self._topics(path)
        program.go_on(f"{path} {read_topic} {written_topic}")
        program.wait_for("running")
        taken = load.programs.run(
            "end_to_end",
            bootstrap=running.bootstrap_servers,
            topic=read_topic,
            read_topic=written_topic,
            partitions=PARTITIONS,
            size=100,
            rate=self._rate,
            warm_up=self._rate * settle_seconds,
            count=self._rate * seconds,
            settings={"producer.linger.ms": "1"},
        )
        program.go_on()
        return {**taken, **program.figures()}


WORKLOADS = tuple(_Through(rate).workload() for rate in (1_000, 50_000))
