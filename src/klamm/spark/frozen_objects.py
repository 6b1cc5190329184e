"""Excludes objects that live as long as a worker process of Spark from garbage collections."""

from __future__ import annotations

import gc
import itertools

__all__ = ["spare_garbage_collections"]

_calls = itertools.count(1)


def spare_garbage_collections() -> None:
    """Freezes all objects that exist now, so that later garbage collections skip them. Call it at the end of each task.

    PySpark collects after every task in every process (`manager` in pyspark/daemon.py). Scanning all modules takes 10
    to 30 ms, longer than a small task. A process may load more modules with another kind of task, so the objects are
    frozen again in the 2nd, 4th, 8th… call. Garbage is collected before.
    """
    number = next(_calls)
    if number & (number - 1) == 0:
        gc.collect()
        gc.freeze()
