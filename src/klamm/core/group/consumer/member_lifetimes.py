"""What became of the members of consumer groups: when they joined, whether they got anything done, how they ended.

Volatile: a coordinator that takes a group over knows none of it, and holds back only whom it finds held back
(`held_back.py`); of members that it did not see join, it knows those that have committed since. A member that has died
again and again without a commit (`crash_loops.py`) is let in without partitions for a while, so that the others keep
theirs; while all members of a group are in that state, none is held back, for there is nobody to keep anything.
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
    """The lives of all members of a shard's consumer groups, as far as this coordinator has seen them."""

    __slots__ = ("_lifetimes", "_loops")

    def __init__(self) -> None:
        self._lifetimes: dict[str, dict[str, _Life]] = {}
        self._loops: dict[str, CrashLoops] = {}

    def joined(self, group_id: str, member_id: str, now: Millis) -> None:
        """A member is new."""
        self._lifetimes.setdefault(group_id, {})[member_id] = _Life(now)

    def committed(self, group_id: str, member: ConsumerGroupMember) -> None:
        """The member has got something done; what happened to others of its name before is forgiven.

        If it joined under another coordinator, or in the classic protocol, its life is known from now on: others of its
        name that die again and again are not to hold it back.
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
        """The member went of its own accord."""
        self._end(group_id, member)

    def died(self, group_id: str, member: ConsumerGroupMember, now: Millis) -> None:
        """The member was lost."""
        life = self._end(group_id, member)
        if life is None:
            return  # It joined under another coordinator: what it did there is not known.
        loops = self._loops.setdefault(group_id, CrashLoops())
        loops.note_death(_name(member), now, life.has_committed, joined_at=life.joined_at)

    def deaths_with(self, group_id: str, member: ConsumerGroupMember, now: Millis) -> int:
        """How many of the member's name will have been lost in a row, without a commit, once it is."""
        life = self._lifetimes.get(group_id, {}).get(member.member_id)
        if life is None:
            return 0
        loops = self._loops.get(group_id) or CrashLoops()
        return loops.deaths_with(_name(member), now, life.has_committed, joined_at=life.joined_at)

    def is_looping(self, group_id: str, member: ConsumerGroupMember, now: Millis) -> bool:
        """Whether members of that name have died so often that this one, who is new, is expected to."""
        loops = self._loops.get(group_id)
        return loops is not None and loops.is_looping(_name(member), now)

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._lifetimes.pop(group_id, None)
        self._loops.pop(group_id, None)

    def held_back(self, group_id: str, members: Iterable[ConsumerGroupMember], now: Millis) -> dict[str, Millis]:
        """The members that should get no partitions, by id, and until when; never all of them."""
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
        """Until when the member should get no partitions if there are others to get them; None if it may."""
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
