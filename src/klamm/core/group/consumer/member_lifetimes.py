"""The lifetimes of members of consumer groups: when they joined, whether they committed, how they ended.

Volatile: a coordinator that takes a group over knows no lifetimes, and holds back only members that it finds held back
(`held_back.py`). Of members that it did not see join, it knows those that have committed since. A member that has died
again and again without a commit (`crash_loops.py`) joins without partitions for a while, so that the others keep
theirs. If all members of a group are in a crash loop, none is held back, because no other member would profit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.crash_loops import CrashLoops, lasting_name
from klamm.protocol.types import Millis

__all__ = ["MemberLifetimes"]

_LONG_AGO: Final = Millis(0)


class _Life:
    __slots__ = ("has_committed", "joined_at")

    def __init__(self, joined_at: Millis) -> None:
        self.joined_at = joined_at
        self.has_committed = False


class MemberLifetimes:
    """The lifetimes of all members of a shard's consumer groups, as far as this coordinator has seen them."""

    __slots__ = ("_lifetimes", "_loops")

    def __init__(self) -> None:
        self._lifetimes: dict[str, dict[str, _Life]] = {}
        self._loops: dict[str, CrashLoops] = {}

    def joined(self, group_id: str, member_id: str, now: Millis) -> None:
        """Begins the lifetime of a new member."""
        self._lifetimes.setdefault(group_id, {})[member_id] = _Life(now)

    def committed(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Notes a commit of the member; its first commit clears the earlier deaths under its name.

        If the member joined under another coordinator, or with the classic protocol, its lifetime is known from now on:
        deaths of other members of its name must not hold it back.
        """
        life = self._lifetimes.get(group_id, {}).get(member.member_id)
        if life is None:
            life = self._lifetimes.setdefault(group_id, {})[member.member_id] = _Life(_LONG_AGO)
        if not life.has_committed:
            life.has_committed = True
            loops = self._loops.get(group_id)
            if loops is not None:
                loops.note_commit(_name(member))

    def left(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Ends the lifetime of a member that left and did not die."""
        self._end(group_id, member)

    def died(self, group_id: str, member: ConsumerGroupMember, now: Millis) -> None:
        """Ends the lifetime of a member that timed out, and counts the death."""
        life = self._end(group_id, member)
        if life is None:
            return  # It joined under another coordinator: its commits there are unknown.
        loops = self._loops.setdefault(group_id, CrashLoops())
        loops.note_death(_name(member), now, life.has_committed, joined_at=life.joined_at)

    def deaths_with(self, group_id: str, member: ConsumerGroupMember, now: Millis) -> int:
        """Returns how many members of its name will have died in a row without a commit, if this one dies now."""
        life = self._lifetimes.get(group_id, {}).get(member.member_id)
        if life is None:
            return 0
        loops = self._loops.get(group_id) or CrashLoops()
        return loops.deaths_with(_name(member), now, life.has_committed, joined_at=life.joined_at)

    def is_looping(self, group_id: str, member: ConsumerGroupMember, now: Millis) -> bool:
        """Returns whether members of its name have died so often that this new member is expected to die, too."""
        loops = self._loops.get(group_id)
        return loops is not None and loops.is_looping(_name(member), now)

    def forget(self, group_id: str) -> None:
        """Drops the lifetimes in a group that is gone."""
        self._lifetimes.pop(group_id, None)
        self._loops.pop(group_id, None)

    def held_back(self, group_id: str, members: Iterable[ConsumerGroupMember], now: Millis) -> dict[str, Millis]:
        """Returns until when which members, by id, should get no partitions; never all of them."""
        loops = self._loops.get(group_id)
        if loops is None:
            return {}
        held = {}
        count = 0
        for member in members:
            count += 1
            until = self.back_off_end(group_id, member, now)
            if until is not None:
                held[member.member_id] = until
        return held if len(held) < count else {}

    def back_off_end(self, group_id: str, member: ConsumerGroupMember, now: Millis) -> Millis | None:
        """Returns until when the member should get no partitions if there are others to get them; None if it may."""
        loops = self._loops.get(group_id)
        life = self._lifetimes.get(group_id, {}).get(member.member_id)
        if loops is None or (life is not None and life.has_committed):
            return None
        return loops.held_back_until(_name(member), now)

    def _end(self, group_id: str, member: ConsumerGroupMember) -> _Life | None:
        lifetimes = self._lifetimes.get(group_id)
        if lifetimes is None:
            return None
        life = lifetimes.pop(member.member_id, None)
        if not lifetimes:
            del self._lifetimes[group_id]
        return life


def _name(member: ConsumerGroupMember) -> Hashable:
    return lasting_name(member.instance_id, member.client_id, member.client_host)
