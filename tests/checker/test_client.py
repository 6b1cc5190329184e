"""Tests how a client process of the checker handles SIGTERM."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import os, signal, threading
from tests.checker.workload.client import call_at_sigterm

done = threading.Event()

def stop():
    print(threading.current_thread() is threading.main_thread())
    done.set()

call_at_sigterm(stop)
os.kill(os.getpid(), signal.SIGTERM)
done.wait()
"""


def test_sigterm_is_not_heard_in_the_main_thread() -> None:
    """SIGTERM calls the stop function in a thread other than the main thread.

    In the main thread, the handler could run inside a call of confluent-kafka that already has an exception to raise.
    In that state Python finds no inherited attribute: `worker.stop` was an AttributeError.
    """
    ended = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "False", "")
