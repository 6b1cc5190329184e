"""Follow-ups of a decision, for after its records are appended or if the append is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.core.coordinator.shard_contract import Result, TimerKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import Millis

__all__ = ["RETRY_MS", "after_append", "if_refused", "retry_on_failure"]

RETRY_MS: Final = 500
"""Delay before a timer fires again whose records were refused, as in Kafka's `CoordinatorTimerImpl`."""


def after_append(result: Result, action: Callable[[], None]) -> None:
    """Registers a change of volatile state to run once the records are appended, after those registered before."""
    earlier = result.on_append
    if earlier is None:
        result.on_append = action
        return

    def both() -> None:
        earlier()
        action()

    result.on_append = both


def if_refused(result: Result, more: Callable[[Result], None]) -> None:
    """Registers `more` to run if the records can't be appended, after the handlers registered before.

    Records that were appended but not committed in time are not refused: the shard has replayed them already. Timers
    that a returning member has moved since then must not be moved again. The events are still published in that case.
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
    """Arms the timer again, after `RETRY_MS`, if the records of its decision can't be appended."""
    if_refused(result, lambda again: again.arm(key, RETRY_MS))
