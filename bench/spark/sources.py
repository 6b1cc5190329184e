"""The two compared sources in one session: klamm's, and Spark's own connector."""

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
"""The source's name in the figures → its name for `format(…)`."""


def bench_session(connector_jars: str, *, fast_checkpoints: bool) -> SparkSession:
    """Returns a session of two threads that knows both sources, with klamm's tuning."""
    # On the driver's class path, not in `spark.jars`: Spark fetches those, and no figure should include that.
    conf = {"spark.driver.extraClassPath": connector_jars, "spark.driver.memory": "2g"}
    return session("bench", "local[2]", fast_checkpoints=fast_checkpoints, **conf)


def print_figures(figures: Mapping[str, Any]) -> None:
    """Prints the last line of output, which the bench reads."""
    print(json.dumps(dict(figures)))
    sys.stdout.flush()
