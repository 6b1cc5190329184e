"""Tests that the clock of sessions counts the time for which the machine is suspended, where the system has a clock
for it."""

from __future__ import annotations

import time

import pytest

from klamm.session_clock import session_time


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system has no such clock")
def test_the_clock_counts_suspended_time() -> None:
    """It is the clock of the time since the machine has started, with suspends."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= session_time() <= time.clock_gettime(time.CLOCK_BOOTTIME)
