"""Hides the traceback of the source's own errors, so that users see only the message.

Spark shows users the exceptions of a Python data source with a traceback: ten frames of Spark and klamm before the one
line that matters. It omits the traceback if the environment variable SPARK_HIDE_TRACEBACK is set
(`spark.sql.execution.pyspark.udf.hideTraceback.enabled`). That setting hides tracebacks of users' own functions as
well.
In a worker process that is about to end by a klamm error, the variable hides only this error's traceback.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from klamm.errors import KlammError

__all__ = ["without_traceback"]

P = ParamSpec("P")
T = TypeVar("T")

_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
_OF_WORKERS: Final = "PYTHON_WORKER_FACTORY_"
"""The prefix of environment variables that only Spark's worker processes have."""


def without_traceback(method: Callable[P, T]) -> Callable[P, T]:
    """Wraps a method so that Spark shows a KlammError without a traceback. Other errors keep their traceback."""

    @wraps(method)
    def told(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return method(*arguments, **options)
        except KlammError:
            if any(name.startswith(_OF_WORKERS) for name in os.environ):
                os.environ[_HIDE_TRACEBACK] = "1"
            raise

    return told
