"""Lets Spark's Python workers keep memory that they have freed, for their next tables.

A worker gets and returns a buffer of several megabytes for each table of rows. By default, glibc takes such a buffer
from the kernel and returns it each time, and the kernel fills each page with zeros again: for records of 1 KB, a tenth
of the worker's processor time.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

__all__ = ["keep_freed_memory"]

# Numbers of glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# The largest value that all versions of glibc accept.
_LARGEST_KEPT_BYTES: Final = 32 * 1024 * 1024
_KEPT_BYTES: Final = 64 * 1024 * 1024


def keep_freed_memory() -> None:
    """Keeps up to 64 MiB of freed memory in this process and in the processes that it forks later.

    Has no effect without glibc.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
