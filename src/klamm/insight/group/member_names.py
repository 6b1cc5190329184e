"""Short names for members, whose ids are long and random."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["MemberNames"]

_SHOWN_CHARACTERS: Final = 8


class MemberNames:
    """A short name for each member: its instance id, or else its client id.

    If several members have had the same client id, the first characters of the member id's random part follow it.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[str | None, str]] = {}
        self._ids_of: dict[str, set[str]] = {}

    def add(self, member_id: str, instance_id: str | None, client_id: str) -> None:
        """Adds a member. Other members' names may become longer."""
        self._known[member_id] = (instance_id, client_id)
        if instance_id is None:
            self._ids_of.setdefault(client_id, set()).add(member_id)

    def of(self, member_id: str) -> str:
        """Returns a member's name; the id itself if the member is unknown."""
        if member_id not in self._known:
            return member_id
        instance_id, client_id = self._known[member_id]
        if instance_id is not None:
            return instance_id
        if client_id and len(self._ids_of[client_id]) == 1:
            return client_id
        random_part = member_id.removeprefix(f"{client_id}-")
        return f"{client_id}#{random_part[:_SHOWN_CHARACTERS]}"

    def all_of(self, member_ids: Iterable[str]) -> list[str]:
        """Returns the members' names, sorted."""
        return sorted(map(self.of, member_ids))

    def in_text(self, text: str) -> str:
        """Returns the text with every known member id replaced by the member's name."""
        ids = sorted((member_id for member_id in self._known if member_id), key=len, reverse=True)
        if not ids:
            return text
        return re.sub("|".join(map(re.escape, ids)), lambda match: self.of(match[0]), text)
