"""A Spark driver in a process of its own, which can be killed: one query from a topic into files.

    python -m tests.support.spark_driver '{"options": …, "output": …, "checkpoint": …, "master": …}'

Each record becomes a row (value, partition, offset) of a Parquet file; Spark's file sink has each micro-batch once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.support.short_lived_spark import SHORT_LIVED_JVM

__all__ = ["SparkDriver"]

_ROOT: Final = Path(__file__).resolve().parents[2]


class SparkDriver:
    """The process, with its JVM: a process group of their own, so that both can be killed at once.

    `program` is the module that it runs, with `query` as JSON.
    """

    def __init__(self, log: Path, program: str = __name__, **query: Any) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", program, json.dumps(query)],
                cwd=_ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self) -> SparkDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        """Whether the driver's Python lives."""
        return self._process.poll() is None

    def text(self) -> str:
        """What the driver has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: int) -> None:
        """Sends a signal to every process of the driver: Python, JVM, planning process, workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def wait(self, patience_s: float = 300) -> int:
        """Waits until the driver has ended. Returns its status."""
        return self._process.wait(patience_s)

    def stop(self, patience_s: float = 300) -> None:
        """Has the query stopped in order."""
        self._process.send_signal(signal.SIGUSR1)
        self._process.wait(patience_s)

    def kill(self) -> None:
        """As `kill -9` of everything that belongs to the driver."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def kill_jvm(self) -> None:
        """As the kernel's killer of processes that need too much memory: the JVM alone, and what it leaves behind."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                name, _, fields = stat.read_text(encoding="utf-8").rpartition(")")
                if name.endswith("(java") and int(fields.split()[2]) == self._process.pid:
                    os.kill(int(stat.parent.name), signal.SIGKILL)


def _main(given: dict[str, Any]) -> None:
    import klamm.spark

    spark = klamm.spark.session("a driver", given.get("master", "local[1]"), **SHORT_LIVED_JVM)
    frame = spark.readStream.format("klamm").options(**given["options"]).load()
    writer = frame.selectExpr("string(value) AS value", "partition", "offset").writeStream.format("parquet")
    query = writer.option("checkpointLocation", given["checkpoint"]).start(given["output"])
    signal.signal(signal.SIGUSR1, lambda number, frame: query.stop())
    print("QUERY STARTED", flush=True)
    while query.isActive:
        # In slices, for signals are handled between two calls into the JVM.
        with contextlib.suppress(Exception):
            query.awaitTermination(1)
    failure = query.exception()
    print("QUERY ENDED", failure or "", flush=True)
    spark.stop()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
