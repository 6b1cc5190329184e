"""Finds the processes in which Spark plans the streaming queries of a session, and waits for their end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["await_end_of_planning", "planning_processes"]

_MODULE: Final = b"pyspark.sql.streaming.python_streaming_source_runner"
_PATIENCE_S: Final = 60.0


def planning_processes(spark: SparkSession) -> list[int]:
    """Returns the process ids of the JVM's children that plan a query; each source of a query has one."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    parent = str(jvm.java.lang.ProcessHandle.current().pid())
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _plans(folder, parent)]


def await_end_of_planning(spark: SparkSession) -> None:
    """Waits until no query of the session has a planning process.

    Spark signals the process when the query ends, and does not wait. So the source's `stop()`, which may commit, can
    still run when the query has ended.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while left := planning_processes(spark):
        assert time.monotonic() < deadline, f"these still plan: {left}"
        time.sleep(0.02)


def _plans(folder: Path, parent: str) -> bool:
    try:
        # The second field is the program's name in parentheses, and may contain any characters.
        fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return fields[1] == parent and _MODULE in (folder / "cmdline").read_bytes()
    except OSError:  # the process has ended meanwhile
        return False
