"""Tests that a process keeps memory that it has freed. Each case runs in its own process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import resource, sys
from klamm.spark.freed_memory import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()
bytearray(10 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytearray(10 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode: str) -> int:
    """Returns how many pages the kernel has filled for 20 buffers of 10 MiB, one after the other."""
    ran = subprocess.run([sys.executable, "-c", _PROGRAM, mode], capture_output=True, text=True, check=True)
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_a_freed_buffer_is_used_again() -> None:
    """The kernel fills the pages of the first buffer only, not those of the buffers after it."""
    assert page_faults("keep") < 100
    assert page_faults("leave") > 2000
