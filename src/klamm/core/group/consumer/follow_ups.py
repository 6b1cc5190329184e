"""What a decision wants done once its records are in the log, or if they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.core.coordinator.shard_contract import Result, TimerKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import Millis

__all__ = ["RETRY_MS", "after_append", "if_refused", "retry_on_failure"]

RETRY_MS: Final = 500
"""What a timer decided and the log refused is decided again after so long, as in Kafka's `CoordinatorTimerImpl`."""


def after_append(result: Result, action: Callable[[], None]) -> None:
    """Have the volatile state changed once the records are in the log, after what was asked for before."""
    earlier = result.on_append
    if earlier is None:
        result.on_append = action
        return

    def both() -> None:
        earlier()
        action()

    result.on_append = both


def if_refused(result: Result, more: Callable[[Result], None]) -> None:
    """Have this done too, besides what was asked for before, if the records can't be written.

    Records that were written and are not committed in time are no such case: the shard stands by them already, and
    timers that have been moved since, by a member that has come back, are not to be moved again. What happened is told.
    """
    earlier = result.on_failure
    is_written = False

    def note_written() -> None:
        nonlocal is_written
        is_written = True

    after_append(result, note_written)

    def on_failure(code: ErrorCode, now: Millis) -> Result:
        again = Result() if earlier is None else earlier(code, now)
        if not is_written:
            more(again)
        elif earlier is None:
            again.events += result.events
        return again

    result.on_failure = on_failure


def retry_on_failure(result: Result, key: TimerKey) -> None:
    """Fire the timer again a little later if what it decided could not be written."""
    if_refused(result, lambda again: again.arm(key, RETRY_MS))
