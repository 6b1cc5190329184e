"""The two sources that are compared, in one session: klamm's, and Spark's own connector."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from klamm.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SOURCES", "bench_session", "print_figures"]

SOURCES: Final[Mapping[str, str]] = {"klamm": "klamm", "connector": "kafka"}
"""What the figures call a source → what stands in `format(…)`."""


def bench_session(connector_jars: str, *, fast_checkpoints: bool) -> SparkSession:
    """A session of two threads, tuned as klamm's are, that knows both sources."""
    # Of the driver's class path, not `spark.jars`: those are fetched, which is no part of any figure.
    conf = {"spark.driver.extraClassPath": connector_jars, "spark.driver.memory": "2g"}
    return session("bench", "local[2]", fast_checkpoints=fast_checkpoints, **conf)


def print_figures(figures: Mapping[str, Any]) -> None:
    """The last line of output, which the bench reads."""
    print(json.dumps(dict(figures)))
    sys.stdout.flush()
