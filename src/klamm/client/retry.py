"""The time limit of an operation that fails, and its pauses between attempts."""

from __future__ import annotations

import random
import time

from klamm.client.config import ClientConfig
from klamm.client.errors import GaveUp

__all__ = ["Retries"]

_MULTIPLIER = 2
_JITTER = 0.2


class Retries:
    """The attempts of one operation: exponential back-off with jitter (KIP-580), within `default.api.timeout.ms`."""

    def __init__(self, config: ClientConfig, operation: str) -> None:
        """Starts the time limit; `operation` is for the error, as in "list the offsets of flights-3"."""
        self._config = config
        self._operation = operation
        self._deadline = time.monotonic() + config.default_api_timeout_ms / 1000
        self.attempts = 0

    def pause(self, reason: str | Exception) -> None:
        """Sleeps before the next attempt. Raises `GaveUp`, with the reason, when there is no time for another
        attempt."""
        time.sleep(self.next_pause_s(reason))

    def next_pause_s(self, reason: str | Exception) -> float:
        """Returns the seconds to wait before the next attempt. Raises `GaveUp` when there is no time for another
        attempt."""
        longest_ms = min(self._config.retry_backoff_ms * _MULTIPLIER**self.attempts, self._config.retry_backoff_max_ms)
        backoff_ms: float = longest_ms * random.uniform(1 - _JITTER, 1 + _JITTER)
        self.attempts += 1
        if time.monotonic() + backoff_ms / 1000 > self._deadline:
            message = (
                f"gave up to {self._operation} after {self.attempts} attempts in default.api.timeout.ms="
                f"{self._config.default_api_timeout_ms}: {reason}"
            )
            raise GaveUp(message) from (reason if isinstance(reason, Exception) else None)
        return backoff_ms / 1000

    def progressed(self) -> None:
        """Restarts the time limit and the back-off, after an attempt that made progress."""
        self.attempts = 0
        self._deadline = time.monotonic() + self._config.default_api_timeout_ms / 1000
