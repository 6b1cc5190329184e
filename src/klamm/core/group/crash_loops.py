"""Who comes and dies, again and again, without ever getting anything done.

A member is known by a name that outlives it: its instance id, or else its client id and host. Three deaths in a row
without a commit are a crash loop, and every further one makes it worse. A commit ends it, and so does half an hour
without a death.

Dying is being lost: not heard of in time, or not joining again in time. Leaving is not dying. Several members may go by
one name, on one host that stops; so a death counts only if the member had joined after the one before had died.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from klamm.protocol.types import Millis

__all__ = ["DEATHS_IN_A_LOOP", "FIRST_BACK_OFF_MS", "CrashLoops", "lasting_name"]

DEATHS_IN_A_LOOP: Final = 3
FIRST_BACK_OFF_MS: Final = 10_000
_LONGEST_BACK_OFF_MS: Final = 300_000
_FORGOTTEN_AFTER_MS: Final = 1_800_000
_MAXIMUM_NAMES: Final = 1000


class _Deaths(NamedTuple):
    in_a_row: int
    noticed_at: Millis
    died_at: Millis


def lasting_name(instance_id: str | None, client_id: str, client_host: str) -> Hashable:
    """The name under which a member is known again when it comes back with another member id."""
    return instance_id if instance_id is not None else (client_id, client_host)


class CrashLoops:
    """The deaths of one group's members; remembers so many names, the latest to die."""

    __slots__ = ("_deaths",)

    def __init__(self) -> None:
        self._deaths: dict[Hashable, _Deaths] = {}

    def note_death(
        self,
        name: Hashable,
        now: Millis,
        has_committed: bool,
        *,
        joined_at: Millis | None = None,
        died_at: Millis | None = None,
    ) -> None:
        """A member of that name is lost. `died_at` is when it was last heard of, `now` unless told otherwise.

        Without `joined_at` each death counts, also of members that died together.
        """
        earlier = self._recent(name, now)
        in_a_row = self.deaths_with(name, now, has_committed, joined_at=joined_at)
        if not has_committed and earlier is not None and in_a_row == earlier.in_a_row:
            return
        self._deaths.pop(name, None)
        if has_committed:
            return
        self._deaths[name] = _Deaths(in_a_row, now, now if died_at is None else died_at)
        if len(self._deaths) > _MAXIMUM_NAMES:
            del self._deaths[next(iter(self._deaths))]

    def deaths_with(self, name: Hashable, now: Millis, has_committed: bool, *, joined_at: Millis | None = None) -> int:
        """How many deaths in a row there would be with this one; see `note_death`."""
        if has_committed:
            return 0
        earlier = self._recent(name, now)
        if earlier is None:
            return 1
        is_the_same = joined_at is not None and joined_at < earlier.died_at
        return earlier.in_a_row if is_the_same else earlier.in_a_row + 1

    def note_commit(self, name: Hashable) -> None:
        """A member of that name has got something done: what was before is forgiven."""
        self._deaths.pop(name, None)

    def deaths(self, name: Hashable, now: Millis) -> int:
        """How many members of that name have died in a row without a commit."""
        deaths = self._recent(name, now)
        return 0 if deaths is None else deaths.in_a_row

    def is_looping(self, name: Hashable, now: Millis) -> bool:
        """Whether so many have died that the next one is expected to."""
        return self.deaths(name, now) >= DEATHS_IN_A_LOOP

    def held_back_until(self, name: Hashable, now: Millis) -> Millis | None:
        """Until when a member of that name should get no work: longer with each death; None for no reason to wait."""
        deaths = self._recent(name, now)
        if deaths is None or deaths.in_a_row < DEATHS_IN_A_LOOP:
            return None
        # The shift is bounded, or the number would grow without end.
        back_off_ms = min(FIRST_BACK_OFF_MS << min(deaths.in_a_row - DEATHS_IN_A_LOOP, 16), _LONGEST_BACK_OFF_MS)
        until = Millis(deaths.noticed_at + back_off_ms)
        return until if until > now else None

    def _recent(self, name: Hashable, now: Millis) -> _Deaths | None:
        deaths = self._deaths.get(name)
        if deaths is None or now - deaths.noticed_at > _FORGOTTEN_AFTER_MS:
            return None
        return deaths
