"""Keeps glibc from giving freed buffers back to the kernel between two fetches.

A consumer that reads from the start takes a megabyte again and again. By default glibc maps each such buffer anew and
the kernel clears 256 pages for it, which costs more than reading the records. Measured: a third of the time of such a
read.
"""

from __future__ import annotations

import ctypes
from typing import Final

__all__ = ["keep_freed_buffers"]

# <malloc.h>
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3

TRIM_THRESHOLD_BYTES: Final = 32 * 1024 * 1024
MMAP_THRESHOLD_BYTES: Final = 16 * 1024 * 1024


def keep_freed_buffers() -> None:
    """Sets the thresholds of this process; does nothing where the C library is not glibc.

    The process may hold up to 32 MB that it has freed. Both have to be set: setting one ends glibc's own adjustment
    of the other.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
