"""Damage: something that was on the disk is not there any more. It is reported, never repaired by forgetting it."""

from __future__ import annotations

from typing import Final

from klamm.protocol.types import Offset
from klamm.storage.batch_scan import BadBatch, scan_bounds
from klamm.storage.index_file import CorruptIndex
from klamm.storage.segment import Segment

__all__ = ["DAMAGE_ADVICE", "LOSS_ADVICE", "Damage", "damage_in"]


DAMAGE_ADVICE: Final = (
    "Nothing was changed. Bring the file back from a copy and start again, or keep what can still be read with "
    "`klamm log verify DIR --repair`."
)
"""What follows a report of damage."""

LOSS_ADVICE: Final = (
    "Nothing was changed. Bring what is missing back from a copy and start again, or accept the loss with "
    "`klamm log verify DIR --repair`."
)
"""What follows a report of something that is not there."""


class Damage(Exception):
    """Something that was on the disk is not there any more: not to be repaired by forgetting it."""


def damage_in(segment: Segment, error: BadBatch, offset: Offset | None = None) -> Damage:
    """What to raise for a bad batch among those that were on the disk.

    `offset` is the first that can't be relied on; where it isn't given it is looked up, and left out if the way there
    is damaged, too.
    """
    offset = offset if offset is not None else _offset_at(segment, error.position)
    where = f"offset {offset}, " if offset is not None else ""
    return Damage(f"{segment.path} is damaged at {where}position {error.position}: {error}. {DAMAGE_ADVICE}")


def _offset_at(segment: Segment, position: int) -> Offset | None:
    """The offset after the batch that ends at `position`."""
    offset = segment.base_offset
    try:
        start = segment.offset_index.last_position_up_to(position - 1, 0)
        for batch in scan_bounds(segment.descriptor, start, position):
            offset = Offset(batch.last_offset + 1)
    except (BadBatch, CorruptIndex, OSError):
        return None
    return offset
