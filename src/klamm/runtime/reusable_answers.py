"""Cached answers to heartbeats, which are sent again without another decision.

Two heartbeats are equal if they differ only in the correlation id. Most heartbeats of a member are equal to the one
before, and get the same answer. The shard says under which condition an answer may be repeated
(`core.coordinator.shard_contract.ReusableAnswer`). While the condition holds, a client that sends the same bytes gets
the same bytes back, and the session of the member starts again; the request is not decoded or decided, and no response
is encoded. Otherwise the request takes the normal path.

One answer is cached for each session timer, so one for each member. The answer is dropped with the timer: when the
member leaves, when the session expires, or when leadership ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from klamm.core.coordinator.shard_contract import Result, ReusableAnswer
from klamm.protocol.codec import encode
from klamm.protocol.message import Message
from klamm.runtime.alarms import Alarm, AlarmQueue
from klamm.runtime.led_partition import LedPartition
from klamm.runtime.ports import WallClock

__all__ = ["LARGEST_REQUEST_BYTES", "ReusableAnswers"]

LARGEST_REQUEST_BYTES: Final = 1024
"""Size limit for a request whose answer is cached, to bound the memory. Heartbeats are about a hundred bytes long."""


class _Answer:
    """One cached answer, which is valid while its timer is armed."""

    __slots__ = ("alarm", "answers", "delay_ms", "encoded", "led", "request_fingerprint", "reusable_answer")

    def __init__(
        self,
        answers: dict[bytes, _Answer],
        request_fingerprint: bytes,
        *,
        led: LedPartition[Any],
        reusable_answer: ReusableAnswer,
        alarm: Alarm,
        delay_ms: int,
        encoded: bytes,
    ) -> None:
        self.answers = answers
        self.request_fingerprint = request_fingerprint
        self.led = led
        self.reusable_answer = reusable_answer
        self.alarm = alarm
        self.delay_ms = delay_ms
        self.encoded = encoded

    def cancel(self) -> None:
        """Drops the answer from the cache."""
        if self.answers.get(self.request_fingerprint) is self:
            del self.answers[self.request_fingerprint]


class ReusableAnswers:
    """The cached answers of one coordinator."""

    __slots__ = ("_alarm_queue", "_answers", "_has_session", "_wall_clock")

    def __init__(
        self, alarm_queue: AlarmQueue, wall_clock: WallClock, has_session: Callable[[], bool] | None = None
    ) -> None:
        """Takes `has_session` as `CoordinatorRuntime` does."""
        self._alarm_queue = alarm_queue
        self._has_session = has_session
        self._wall_clock = wall_clock
        self._answers: dict[bytes, _Answer] = {}

    def repeat(self, request_fingerprint: bytes) -> bytes | None:
        """Returns the cached encoded answer and restarts the session timer; None if the request must be decided."""
        answer = self._answers.get(request_fingerprint)
        if answer is None:
            return None
        led = answer.led
        if (
            led.lingering
            or led.waiting
            or led.high_watermark < led.log_end_offset
            or not answer.reusable_answer.holds(self._wall_clock())
            or (self._has_session is not None and not self._has_session())
        ):
            return None
        self._alarm_queue.set_deadline(answer.alarm, answer.delay_ms)
        return answer.encoded

    def keep(
        self, request_fingerprint: bytes, led: LedPartition[Any], result: Result, response: Message, api_version: int
    ) -> None:
        """Caches the answer to a request if the result has a `reusable_answer`. Its timer must be armed already."""
        if result.reusable_answer is None or len(request_fingerprint) > LARGEST_REQUEST_BYTES:
            return
        ((key, delay_ms),) = result.timers
        alarm = led.alarms.armed(key)
        if alarm is None or delay_ms is None:
            return
        answer = _Answer(
            self._answers,
            request_fingerprint,
            led=led,
            reusable_answer=result.reusable_answer,
            alarm=alarm,
            delay_ms=delay_ms,
            encoded=encode(response, api_version),
        )
        alarm.tie(answer)
        self._answers[request_fingerprint] = answer

    def __len__(self) -> int:
        return len(self._answers)
