"""Shows people what the source refuses as a sentence, without the traceback that led there.

Spark puts whatever a Python data source raises into the error that the user gets, with its traceback: ten frames of
Spark and klamm before the one line that counts. It leaves the traceback out where the environment variable
SPARK_HIDE_TRACEBACK is set (`spark.sql.execution.pyspark.udf.hideTraceback.enabled`). That setting hides tracebacks of
users' own functions as well. Set in a worker process that an error of klamm's is about to end, it hides only that one.
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
"""Spark's worker processes, and no others, have environment variables that begin so."""


def without_traceback(method: Callable[P, T]) -> Callable[P, T]:
    """Has Spark show the message alone where the method raises a KlammError. Other errors keep their traceback."""

    @wraps(method)
    def told(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return method(*arguments, **options)
        except KlammError:
            if any(name.startswith(_OF_WORKERS) for name in os.environ):
                os.environ[_HIDE_TRACEBACK] = "1"
            raise

    return told
