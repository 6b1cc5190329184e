"""The producers of a worker process. Spark reuses its workers, so a producer outlives its task."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from klamm.client.producer.producer import BlockingProducer
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.types import Millis

__all__ = ["BorrowedProducer", "borrow_producer"]

_AT_ONCE: Final = Millis(0)
_producers: dict[tuple[int, ProducerConfig], BlockingProducer] = {}


class BorrowedProducer:
    """The use of this process's producer by one task. A forked child gets its own, since sockets can't be shared."""

    def __init__(self, config: ProducerConfig) -> None:
        self._key = (os.getpid(), config)

    @property
    def producer(self) -> BlockingProducer:
        """The producer."""
        producer = _producers.get(self._key)
        if producer is None:
            producer = _producers[self._key] = BlockingProducer(self._key[1])
        return producer

    def drop(self) -> None:
        """Removes the producer, and drops what it has not sent."""
        producer = _producers.pop(self._key, None)
        if producer is not None:
            # The first error says more than an error of closing the connections.
            with contextlib.suppress(Exception):
                producer.close(_AT_ONCE)


@contextmanager
def borrow_producer(config: ProducerConfig) -> Iterator[BorrowedProducer]:
    """Yields this process's producer with these settings.

    After an error, the next task gets another producer: records of the failed task may still be in flight in this one.
    """
    borrowed = BorrowedProducer(config)
    try:
        yield borrowed
    except BaseException:
        borrowed.drop()
        raise
