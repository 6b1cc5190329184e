"""Crash loops: members that join and die repeatedly without a commit.

A member is identified by a name that survives a restart: its instance id, or else its client id and host. Three deaths
in a row without a commit are a crash loop, and each further death makes the back-off longer. A commit or half an hour
without a death ends the loop.

A member dies if its session times out, or if it does not rejoin in time. Leaving is not dying. Several members may
share one name, for example on one host that stops. Therefore a death counts only if the member joined after the
previous death.
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
    """Returns the name that identifies a member even if it returns with another member id."""
    return instance_id if instance_id is not None else (client_id, client_host)


class CrashLoops:
    """The deaths of one group's members, for the `_MAXIMUM_NAMES` names that died last."""

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
        """Records the death of a member. `died_at` is the time of its last sign of life; the default is `now`.

        Without `joined_at` each death counts, even if several members died together.
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
        """Returns the number of deaths in a row including this one, without recording it; see `note_death`."""
        if has_committed:
            return 0
        earlier = self._recent(name, now)
        if earlier is None:
            return 1
        is_the_same = joined_at is not None and joined_at < earlier.died_at
        return earlier.in_a_row if is_the_same else earlier.in_a_row + 1

    def note_commit(self, name: Hashable) -> None:
        """Forgets the deaths under that name, because a member with that name committed."""
        self._deaths.pop(name, None)

    def deaths(self, name: Hashable, now: Millis) -> int:
        """Returns how many members of that name died in a row without a commit."""
        deaths = self._recent(name, now)
        return 0 if deaths is None else deaths.in_a_row

    def is_looping(self, name: Hashable, now: Millis) -> bool:
        """Returns whether members of that name are in a crash loop."""
        return self.deaths(name, now) >= DEATHS_IN_A_LOOP

    def held_back_until(self, name: Hashable, now: Millis) -> Millis | None:
        """Returns until when a member gets no partitions, longer with each death; None if it need not wait."""
        deaths = self._recent(name, now)
        if deaths is None or deaths.in_a_row < DEATHS_IN_A_LOOP:
            return None
        # The shift is bounded, so that the number stays small.
        back_off_ms = min(FIRST_BACK_OFF_MS << min(deaths.in_a_row - DEATHS_IN_A_LOOP, 16), _LONGEST_BACK_OFF_MS)
        until = Millis(deaths.noticed_at + back_off_ms)
        return until if until > now else None

    def _recent(self, name: Hashable, now: Millis) -> _Deaths | None:
        deaths = self._deaths.get(name)
        if deaths is None or now - deaths.noticed_at > _FORGOTTEN_AFTER_MS:
            return None
        return deaths
