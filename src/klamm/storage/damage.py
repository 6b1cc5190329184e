"""Damage: something that was on the disk is not there any more. It is reported, never repaired by forgetting it."""

from __future__ import annotations

from typing import Final

from klamm.protocol.types import Offset
from klamm.storage.batch_scan import BadBatch
from klamm.storage.segment import Segment

__all__ = ["DAMAGE_ADVICE", "Damage", "damage_in"]


DAMAGE_ADVICE: Final = (
    "Nothing was changed. Bring the file back from a copy and start again, or keep what can still be read with "
    "`klamm log verify DIR --repair`."
)
"""What follows a report of damage."""


class Damage(Exception):
    """Something that was on the disk is not there any more: not to be repaired by forgetting it."""


def damage_in(segment: Segment, error: BadBatch, offset: Offset | None) -> Damage:
    """What to raise for a bad batch among those that were on the disk; without an offset where none is known."""
    where = f"offset {offset}, " if offset is not None else ""
    return Damage(f"{segment.path} is damaged at {where}position {error.position}: {error}. {DAMAGE_ADVICE}")
