"""The end of the process in which Spark plans a query."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Like PySpark's runner: serves calls, and stops the reader when the process ends for any reason.
_PROCESS = """
import os, signal, sys, time
from klamm.spark.source.planning_process import end_in_order, is_the_end

def terminate():
    os.kill(os.getpid(), signal.SIGTERM)

def tell_the_group():
    if {when!r} == "later":
        terminate()
        terminate()
    print("left")

@is_the_end
def stop():
    tell_the_group()

def come_to_stop(frame, event, argument):
    # The first moment at which Python looks for signals in a function.
    if event == "call" and frame.f_code is stop.__code__ and {when!r} == "first":
        terminate()

end_in_order()
try:
    if {when!r} == "before":
        terminate()
        time.sleep(60)
    raise EOFError
finally:
    sys.setprofile(come_to_stop)
    stop()
"""


@pytest.mark.parametrize("when", ["before", "first", "later", "never"])
def test_the_reader_is_stopped_whenever_the_signal_comes(when: str) -> None:
    """The reader is stopped completely, although Spark closes the connection and sends SIGTERM twice, before or during
    the stop."""
    command = [sys.executable, "-c", _PROCESS.format(when=when)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert ended.stdout == "left\n", ended.stderr
    assert ended.returncode == (143 if when == "before" else 1)
