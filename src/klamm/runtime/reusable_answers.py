"""Answers that are given again without another decision: to heartbeats that say byte for byte what was said before.

Nearly every heartbeat says only that its member is still there, and is answered as the one before it. The shard says
on what such an answer stands (`core.coordinator.contract.Standing`). While that holds, whoever brings the same bytes
gets the same bytes back, and the member's session begins anew; neither is read, decided nor written again. Otherwise
the request goes the whole way.

One answer is kept for each timer that is armed by one, which is one for each member, and goes with the timer: when the
member goes, when the session runs out, when leadership ends.
"""

from __future__ import annotations

from typing import Any, Final

from klamm.core.coordinator.shard_contract import Result, Standing
from klamm.protocol.codec import encode
from klamm.protocol.message import Message
from klamm.runtime.alarms import Alarm, AlarmQueue
from klamm.runtime.led_partition import LedPartition
from klamm.runtime.ports import WallClock

__all__ = ["LARGEST_REQUEST_BYTES", "StandingAnswers"]

LARGEST_REQUEST_BYTES: Final = 1024
"""Of a request whose answer is kept; heartbeats are a hundred bytes long, and what is kept is paid with memory."""


class _Answer:
    """One answer, until its timer is no longer armed."""

    __slots__ = ("alarm", "answers", "delay_ms", "encoded", "led", "said", "standing")

    def __init__(
        self,
        answers: dict[bytes, _Answer],
        said: bytes,
        *,
        led: LedPartition[Any],
        standing: Standing,
        alarm: Alarm,
        delay_ms: int,
        encoded: bytes,
    ) -> None:
        self.answers = answers
        self.said = said
        self.led = led
        self.standing = standing
        self.alarm = alarm
        self.delay_ms = delay_ms
        self.encoded = encoded

    def cancel(self) -> None:
        """It is given no more."""
        if self.answers.get(self.said) is self:
            del self.answers[self.said]


class StandingAnswers:
    """The answers of one coordinator that stand."""

    __slots__ = ("_alarm_queue", "_answers", "_wall_clock")

    def __init__(self, alarm_queue: AlarmQueue, wall_clock: WallClock) -> None:
        self._alarm_queue = alarm_queue
        self._wall_clock = wall_clock
        self._answers: dict[bytes, _Answer] = {}

    def repeat(self, said: bytes) -> bytes | None:
        """The encoded answer to what was said, with all that the decision on it would do; None if it has to be made."""
        answer = self._answers.get(said)
        if answer is None:
            return None
        led = answer.led
        if (
            led.lingering
            or led.waiting
            or led.high_watermark < led.log_end_offset
            or not answer.standing.holds(self._wall_clock())
        ):
            return None
        self._alarm_queue.set_deadline(answer.alarm, answer.delay_ms)
        return answer.encoded

    def keep(self, said: bytes, led: LedPartition[Any], result: Result, response: Message, api_version: int) -> None:
        """Keep the answer to what was said, if it stands on something. Its timer must have been armed."""
        if result.standing is None or len(said) > LARGEST_REQUEST_BYTES:
            return
        ((key, delay_ms),) = result.timers
        alarm = led.alarms.armed(key)
        if alarm is None or delay_ms is None:
            return
        answer = _Answer(
            self._answers,
            said,
            led=led,
            standing=result.standing,
            alarm=alarm,
            delay_ms=delay_ms,
            encoded=encode(response, api_version),
        )
        alarm.tie(answer)
        self._answers[said] = answer

    def __len__(self) -> int:
        return len(self._answers)
