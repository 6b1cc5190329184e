"""The pauses between attempts, without a clock: exponential, with the caller's jitter (KIP-580)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.client.config import ClientConfig
from klamm.protocol.types import Millis

__all__ = ["Backoff"]

_MULTIPLIER: Final = 2
# After this number of attempts the pause is always the longest one.
_MOST_DOUBLINGS: Final = 20


class Backoff:
    """Computes pauses within `retry.backoff.ms` and `retry.backoff.max.ms`."""

    def __init__(self, config: ClientConfig, jitter: Callable[[], float]) -> None:
        """Takes a function `jitter`, which returns a factor near 1 for each pause."""
        self._first_ms = config.retry_backoff_ms
        self._longest_ms = config.retry_backoff_max_ms
        self._jitter = jitter

    def pause_ms(self, attempts: int) -> Millis:
        """Returns the pause after this many failed attempts in a row, at least one."""
        doublings = min(max(attempts - 1, 0), _MOST_DOUBLINGS)
        return Millis(round(min(self._first_ms * _MULTIPLIER**doublings, self._longest_ms) * self._jitter()))
