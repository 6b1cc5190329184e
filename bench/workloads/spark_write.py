"""Rows into a topic: klamm's sink and that of Spark's connector, on both brokers.

The table's columns are the brokers. The sinks write to each broker in turn, in one session, each time to a new topic of
six partitions. They have acks=all, an idempotent producer, linger.ms=5 and batch.size=131072. They read the rows from
the same Parquet files. klamm's sink also writes in a streaming query of four micro-batches, at least and exactly once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from bench.measure import cpu_seconds
from bench.peers import PeerUnavailable, RunningPeer
from bench.spark.run import SparkProgram
from bench.spark.write_all import FILES, FILES_OF_A_BATCH, WAYS
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOADS"]

_SIZES = ((100, "100 bytes", 10_000_000), (1_000, "1 KB", 2_000_000))
_CODECS = ("none", "lz4", "zstd")


class _Write:
    """Writes of `count` records of a size with a codec."""

    def __init__(self, size_bytes: int, size: str, count: int, codec: str) -> None:
        self._size_bytes = size_bytes
        self._size = size
        self._count = count
        self._codec = codec
        self._programs: dict[str, SparkProgram] = {}
        """The programs by the broker's address."""

    def workload(self) -> SteadyWorkload:
        """Returns the row."""
        compression = "" if self._codec == "none" else f", {self._codec}"
        return SteadyWorkload(
            name=f"spark_write_{self._size_bytes}_{self._codec}",
            title=f"Write {self._count:,} records of {self._size}{compression}",
            figures=(
                Figure("klamm", "klamm's sink", "records/s", digits=0),
                Figure("connector", "connector", "records/s", digits=0),
                Figure("ratio", "klamm's sink / connector", "x", limit=1.0, digits=2, of=("klamm", "connector")),
                Figure("query", "klamm's sink in a query, at least once", "records/s", digits=0),
                Figure("exactly_once", "klamm's sink in a query, exactly once", "records/s", digits=0),
                Figure(
                    "ratio_exactly_once",
                    "exactly once / at least once",
                    "x",
                    limit=0.7,
                    digits=2,
                    of=("exactly_once", "query"),
                ),
            ),
            rounds=3,
            without={"tansu": "the Spark rows compare sinks, on two brokers", "mock": "it keeps no records"},
            prepare=self._prepare,
            measure=self._measure,
            finish=self._finish,
        )

    def _prepare(self, running: RunningPeer, load: Load) -> None:
        program = SparkProgram(
            "write_all", running.bootstrap_servers, load.scaled(self._count), self._size_bytes, self._codec
        )
        self._programs[running.bootstrap_servers] = program
        program.wait_for("ready")
        # Unmeasured: classes, generated code, workers.
        for way in WAYS:
            self._write(running, way, "some")

    def _measure(self, running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        program = self._programs[running.bootstrap_servers]
        count = load.scaled(self._count)
        for way in sorted(WAYS, reverse=number % 2 == 1):
            used = cpu_seconds(program.process_id)
            seconds, ends = self._write(running, way, "all")
            figures[f"{way}_cpu_seconds"] = cpu_seconds(program.process_id) - used
            markers = FILES // FILES_OF_A_BATCH * PARTITIONS if way == "exactly_once" else 0
            if not count <= ends <= count + markers:
                raise PeerUnavailable(f"{way} wrote {count:,} records, the topic ends at {ends:,}")
            figures[way] = count / seconds
        figures["ratio"] = figures["klamm"] / figures["connector"]
        figures["ratio_exactly_once"] = figures["exactly_once"] / figures["query"]
        return figures

    def _finish(self, running: RunningPeer) -> None:
        program = self._programs.pop(running.bootstrap_servers, None)
        if program is not None:
            program.kill()

    def _write(self, running: RunningPeer, way: str, share: str) -> tuple[float, int]:
        """Writes to a new topic. Returns the seconds, and the number of offsets in the topic."""
        program = self._programs[running.bootstrap_servers]
        # A new name each time: a producer that has known the topic before needs a while to notice another one.
        topic = f"written-by-{way}-{time.monotonic_ns()}"
        running.create_topic(topic, PARTITIONS)
        program.go_on(f"{way} {topic} {share}")
        seconds: float = program.figures()["seconds"]
        ends = running.count_offsets(topic, PARTITIONS)
        running.delete_topic(topic)
        return seconds, ends


WORKLOADS = tuple(_Write(*size, codec).workload() for size in _SIZES for codec in _CODECS)
