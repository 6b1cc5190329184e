"""The environment of a world: random numbers from the seed, no garbage collection, no broker in another thread, a
handler of the broker's log."""

from __future__ import annotations

import gc
import logging
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from tests.simulation.violation import EXCEPTION, Violation

__all__ = ["listening", "undisturbed"]

_worlds = count(1)
_WORLDS_KEPT: Final = 10
"""Garbage is collected once in so many worlds. The garbage of one world takes about a megabyte."""
_THREADS_OF_KLAMM: Final = ("klamm-broker", "klamm-worker", "metadata-store", "coordinator")
"""How the names of threads begin in which a broker or a worker runs."""


@contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """Seeds the random numbers, and prevents garbage collection while the context is open.

    Raises RuntimeError if a broker or a worker runs in another thread of this process: it would use the clock, the
    files and the patched functions of the world, and the seed would no longer decide what happens.
    """
    others = [thread.name for thread in threading.enumerate() if thread.name.startswith(_THREADS_OF_KLAMM)]
    if others:
        raise RuntimeError(f"the world is not alone in this process; threads of klamm: {', '.join(others)}")
    state = random.getstate()
    was_enabled = gc.isenabled()
    random.seed(seed)
    gc.disable()
    if next(_worlds) % _WORLDS_KEPT == 0:
        _collect()  # A caller may still hold the last world, so this collects the worlds before it.
    gc.freeze()
    try:
        yield
    finally:
        _collect()
        gc.unfreeze()
        if was_enabled:
            gc.enable()
        random.setstate(state)


def _collect() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # A process that dies leaves coroutines that never started.
        gc.collect()


class _Exceptions(logging.Handler):
    """A log handler that reports logged exceptions as findings, because a broker answers its clients despite an
    exception.
    """

    def __init__(self, fail: Callable[[BaseException], None]) -> None:
        super().__init__(logging.ERROR)
        self._fail = fail

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not isinstance(record.exc_info[1], OSError):
            self._fail(Violation(EXCEPTION, self.format(record)))


@contextmanager
def listening(fail: Callable[[BaseException], None]) -> Iterator[None]:
    logger = logging.getLogger("klamm")
    handler = _Exceptions(fail)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
