"""Finds members of a group that are in a crash loop, by the group's history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.core.group.history.history_record import HistoryCause, HistoryRecord
from klamm.insight.group.group_picture import GroupPicture

__all__ = ["JOINED", "lasting_name", "troubles"]

JOINED: Final = "member_joined"
# The coordinator forgets a crash loop after half an hour, and holds a member back for at most five minutes at a time.
_FORGIVEN_MS: Final = 1_800_000
_HELD_BACK_MS: Final = 360_000


def troubles(picture: GroupPicture, history: Sequence[HistoryRecord], now_ms: int) -> dict[str, str]:
    """Returns the members in a crash loop, held back or not, with the cause's text from the history.

    Only a member's last cause counts. A member that is no longer held back has another last cause, and is a standby if
    it still has no partitions.
    """
    found: dict[str, str] = {}
    for member in picture.members:
        name = lasting_name(member.instance_id, member.client_id, member.host)
        cause = _last_word(history, name)
        if cause is not None and cause.is_crash_loop:
            is_idle = not member.assigned and not member.target
            remembered_ms = _HELD_BACK_MS if is_idle else _FORGIVEN_MS
            if now_ms - cause.at_ms <= remembered_ms:
                found[member.member_id] = cause.text
    return found


def _last_word(history: Sequence[HistoryRecord], name: str) -> HistoryCause | None:
    """Returns the last cause of a member. Ignores joins outside a crash loop, since a crashed member joins again."""
    for record in reversed(history):
        for cause in reversed(record.causes):
            member = record.members.get(cause.member_id or "")
            if member is None or lasting_name(member.instance_id, member.client_id, member.host) != name:
                continue
            if cause.code != JOINED or cause.is_crash_loop:
                return cause
    return None


def lasting_name(instance_id: str | None, client_id: str, host: str) -> str:
    """Returns a name that stays the same after a crash, when the client comes back with another member id."""
    return instance_id if instance_id is not None else f"{client_id} at {host.removeprefix('/')}"
