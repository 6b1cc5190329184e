"""Runs one client in its own process, so that a kill or a crash affects only that client.

Call: python -m tests.checker.workload.client HISTORY BOOTSTRAP SEED NUMBER SLOWNESS NAME. SIGTERM ends it.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.checker.history import Recorder
from tests.checker.workload.roles import PRODUCERS, READERS
from tests.checker.workload.worker import Setting

__all__ = ["call_at_sigterm", "main"]


def call_at_sigterm(stop: Callable[[], None]) -> None:
    """Starts a thread that waits for SIGTERM and then calls `stop`. Must be called before other threads exist.

    A signal handler would run in the main thread, sometimes inside a call of confluent-kafka that already has an
    exception to raise. In that state Python finds no inherited attribute (seen: "'TransactionalProducer' object has no
    attribute 'stop'").
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        stop()

    threading.Thread(target=wait, name="sigterm", daemon=True).start()


def main() -> None:
    """Runs the client."""
    # Ctrl-C goes to the checker, which then stops its clients.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    history, bootstrap_servers, seed, number, slowness, name = sys.argv[1:]
    recorder = Recorder(Path(history))
    setting = Setting(recorder, bootstrap_servers, int(seed), int(number), slowness=float(slowness))
    worker = (PRODUCERS | READERS)[name](setting, name)
    call_at_sigterm(worker.stop)
    worker.run()
    recorder.close()


if __name__ == "__main__":
    main()
