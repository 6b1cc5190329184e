"""Whether Spark's JVM still answers, and the stop of a session whose JVM may have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_jvm_gone", "stop_session"]


def is_jvm_gone(spark: SparkSession) -> bool:
    """Returns whether Spark's JVM has ended.

    py4j raises different errors for a call whose JVM ends: `ConnectionError`, `Py4JNetworkError`, or a `Py4JError` that
    says the same as after an error in the JVM. So this asks the JVM.
    """
    jvm: Any = spark._jvm
    try:
        jvm.System.nanoTime()
    except Exception:
        return True
    return False


def stop_session(spark: SparkSession) -> None:
    """Stops the session. Does nothing if its JVM has ended."""
    try:
        spark.stop()
    except Exception:
        if not is_jvm_gone(spark):
            raise
