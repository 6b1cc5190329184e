"""How a signal ends a run of the checker."""

from __future__ import annotations

import signal
import threading
import time

import pytest
from tests.checker.interruption import Interrupted, Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_seen_at_the_next_look(number: signal.Signals) -> None:
    """A signal raises nothing by itself, in whatever code it comes; the next look raises, and each one after it."""
    interruption = Interruption()
    before = signal.getsignal(number)
    with interruption.expected():
        interruption.look()
        signal.raise_signal(number)
        assert interruption.has_come
        for _ in range(2):
            with pytest.raises(Interrupted, match="it was interrupted"):
                interruption.look()
        with pytest.raises(Interrupted):
            interruption.sleep(0)
    assert signal.getsignal(number) is before


def test_a_signal_ends_a_sleep() -> None:
    """A sleep ends soon after a signal, and takes its time without one."""
    interruption = Interruption()
    with interruption.expected():
        began = time.monotonic()
        interruption.sleep(0.2)
        assert time.monotonic() - began >= 0.2
        main = threading.main_thread().ident
        assert main is not None
        threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGTERM)).start()
        with pytest.raises(Interrupted):
            interruption.sleep(600)
    assert time.monotonic() - began < 300


def test_another_thread_takes_no_signals() -> None:
    """A run in another thread than the first leaves the handlers of signals alone."""
    handlers: list[object] = []

    def run() -> None:
        with Interruption().expected():
            handlers.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [before]
