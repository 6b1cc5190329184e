"""Spares a process of Spark's workers the garbage collection of objects that live as long as the process."""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["spare_garbage_collections"]


@cache
def spare_garbage_collections() -> None:
    """Freezes all objects that exist now, once in a process, so that later garbage collections skip them.

    PySpark's worker collects after every task (`manager` in pyspark/daemon.py). Scanning all modules takes 20 to 30 ms,
    longer than a small task.
    """
    gc.collect()
    gc.freeze()
