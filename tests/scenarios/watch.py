"""Looks at what comes of a step: answers as they arrive, and the state of the group, until there is no more to see.

A record directs how long one looks: an answer that is expected is waited for, however slow the broker is, and one that
isn't ends the step at once. Without a record one looks until all is quiet for a while.
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
"""How long an answer or a state that is expected may take."""
LOOK_SECONDS: Final = 0.02
"""How long one waits before looking again; what nobody expects has as long to arrive."""
QUIET_SECONDS: Final = 0.2
"""After which nothing more is expected to come, where it isn't known what does."""
SURPRISE_SECONDS: Final = 2
"""How long an answer that nobody expects may still turn out to be one that is, once all names are known."""
NO_ANSWER_SECONDS: Final = 0.4
"""After which a request is taken for one that waits, where it isn't known whether it does."""
WAITS: Final = "< waits"


def _tell_other(answer: Answer) -> str:
    """An answer that somebody had been waiting for."""
    return f"< {answer.pending.member.name}, answer to {answer.pending.verb}: {answer.text}"


def _quiet_seconds(is_known: bool, waits: bool) -> float:
    """How long nothing new must come for a step to be over."""
    if is_known:
        return LOOK_SECONDS if waits else 0
    return NO_ANSWER_SECONDS if waits else QUIET_SECONDS


class Watch:
    """What comes of the steps of one scenario."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shown = NO_GROUP
        """The state of the group that was told last."""

    def forget(self) -> None:
        """Another group is looked at from now on."""
        self._shown = NO_GROUP

    def change(self) -> list[str]:
        """Returns the state of the group if it differs from the one that was told last; otherwise nothing."""
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
        """Looks until what is expected has come, or something else, or all is quiet; tells what was seen.

        `own` is the request of the step, if it made one. `meanwhile` is called on each look and tells what else is
        seen. With `at_least_seconds` one doesn't end before, unless the group changed or somebody who had been waiting
        was answered.
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
                # An answer is never taken back, but names may be missing in it, and a state may be on its way.
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
        """Requests whose answers have come; they are pending no more."""
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
    """The sockets, as file descriptors, on which something has come. Not `select`, which knows but 1,024 of them."""
    poll = select.poll()
    for each in pending:
        poll.register(each.wire.socket, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(patience_seconds * 1000)}
