"""The producers of a worker process. Spark reuses its workers, so a producer outlives its task."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from klamm.client.producer.config import ProducerConfig
from klamm.client.producer.producer import BlockingProducer
from klamm.protocol.types import Millis

__all__ = ["shared_producer"]

_AT_ONCE: Final = Millis(0)
_producers: dict[tuple[int, ProducerConfig], BlockingProducer] = {}


@contextmanager
def shared_producer(config: ProducerConfig) -> Iterator[BlockingProducer]:
    """Yields this process's producer with these settings. A forked child gets its own, since sockets can't be shared.

    After an error, the next task gets another producer: records of the failed task may still be under way in this one.
    """
    key = (os.getpid(), config)
    producer = _producers.get(key)
    if producer is None:
        producer = _producers[key] = BlockingProducer(config)
    try:
        yield producer
    except BaseException:
        del _producers[key]
        # The error that is under way says more than one of the connections.
        with contextlib.suppress(Exception):
            producer.close(_AT_ONCE)
        raise
