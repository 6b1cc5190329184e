"""The processes in which Spark plans the streaming queries of a session, for as long as they live."""

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
    """The ids of the children of the session's JVM that plan a query, one for each source of a query."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    parent = str(jvm.java.lang.ProcessHandle.current().pid())
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _plans(folder, parent)]


def await_end_of_planning(spark: SparkSession) -> None:
    """Returns when no query of the session has a planning process any more.

    Spark signals the process when the query ends and does not wait: what the source does in its `stop()`, such as to
    commit, may still be under way when the query is over.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while left := planning_processes(spark):
        assert time.monotonic() < deadline, f"these still plan: {left}"
        time.sleep(0.02)


def _plans(folder: Path, parent: str) -> bool:
    try:
        # The second field is the program's name in brackets, and may hold anything.
        fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return fields[1] == parent and _MODULE in (folder / "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return False
