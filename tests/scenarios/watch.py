"""Collects the outcome of a step: answers as they arrive, and the state of the group, until nothing more comes.

A recording decides how long to look. An expected answer is awaited however slow the broker is, and an unexpected one
ends the step soon. Without a recording, looking ends when nothing has come for a while.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.scenarios.states import NO_GROUP, show_state
from tests.scenarios.world import Answer, Pending, World

__all__ = ["LOOK_SECONDS", "PATIENCE_SECONDS", "Watch"]

PATIENCE_SECONDS: Final = 20
"""Time limit for an expected answer or state."""
LOOK_SECONDS: Final = 0.02
"""Pause between two looks, and the time in which unexpected answers may arrive."""
QUIET_SECONDS: Final = 0.2
"""Without a recording, a step ends after this time without news."""
SURPRISE_SECONDS: Final = 2
"""Time in which an unexpected answer may still become the expected one, when all names are known."""
NO_ANSWER_SECONDS: Final = 0.4
"""Without a recording, a request without an answer after this time counts as waiting."""
WAITS: Final = "< waits"


def _tell_other(answer: Answer) -> str:
    """Returns the line for the answer to an earlier request."""
    return f"< {answer.pending.member.name}, answer to {answer.pending.verb}: {answer.text}"


def _quiet_seconds(is_known: bool, waits: bool) -> float:
    """Returns the time without news after which a step is over."""
    if is_known:
        return LOOK_SECONDS if waits else 0
    return NO_ANSWER_SECONDS if waits else QUIET_SECONDS


class Watch:
    """The outcomes of the steps of one scenario."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shown = NO_GROUP
        """The last state of the group in an outcome."""

    def forget(self) -> None:
        """Forgets the last state, because the scenario continues with another group."""
        self._shown = NO_GROUP

    def change(self) -> list[str]:
        """Returns the state of the group if it differs from the last one in an outcome; otherwise nothing."""
        state = show_state(self._world)
        return state if state != self._shown else []

    def see(
        self,
        own: Pending | None,
        expected: list[str] | None,
        *,
        at_least_seconds: float = 0,
        meanwhile: Callable[[], list[str]] = list,
    ) -> list[str]:
        """Waits for the expected outcome, an unexpected one, or a quiet time; returns the outcome.

        `own` is the request of the step, if there is one. `meanwhile` is called on each look and returns additional
        lines. `at_least_seconds` is the minimum time, unless the group changes or an earlier request is answered.
        """
        begin = quiet_since = time.monotonic()
        arrived: list[Answer] = []
        before: list[str] = []
        while True:
            arrived += [pending.receive() for pending in self._ready()]
            own_answer = [f"< {answer.text}" for answer in arrived if answer.pending is own]
            others = sorted(_tell_other(answer) for answer in arrived if answer.pending is not own)
            waiting = [WAITS] if own is not None and not own_answer else []
            state = show_state(self._world)
            changed = state if state != self._shown else []
            seen = own_answer + meanwhile() + others + waiting + changed
            now = time.monotonic()
            if seen != before:
                before, quiet_since = seen, now
            took, quiet = now - begin, now - quiet_since
            if expected is not None and seen != expected:
                # An answer never changes, but names in it may still be unknown, and the state may still change.
                is_surprising = any(line not in expected for line in own_answer + others)
                ends = took >= PATIENCE_SECONDS + at_least_seconds or (is_surprising and quiet >= SURPRISE_SECONDS)
            else:
                has_come = took >= at_least_seconds or bool(others or changed)
                ends = has_come and quiet >= _quiet_seconds(expected is not None, bool(waiting))
            if ends:
                self._shown = state
                return seen
            self._pause()

    def _ready(self) -> list[Pending]:
        """Returns requests whose answers have arrived, and removes them from the pending ones."""
        pending = self._world.pending
        if not pending:
            return []
        ready = _readable(pending, 0)
        with_answer = [each for each in pending if each.wire.socket.fileno() in ready]
        self._world.pending = [each for each in pending if each.wire.socket.fileno() not in ready]
        return with_answer

    def _pause(self) -> None:
        pending = self._world.pending
        if pending:
            _readable(pending, LOOK_SECONDS)
        else:
            time.sleep(LOOK_SECONDS)


def _readable(pending: Sequence[Pending], patience_seconds: float) -> set[int]:
    """Returns the file descriptors of sockets with data. `select` supports only 1,024 of them, so this uses `poll`."""
    poll = select.poll()
    for each in pending:
        poll.register(each.wire.socket, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(patience_seconds * 1000)}
