"""Damage: records that were on the disk are lost. It is reported, never repaired by ignoring the loss."""

from __future__ import annotations

from typing import Final

from klamm.protocol.types import Offset
from klamm.storage.segment.batch_scan import BadBatch, scan_bounds
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment

__all__ = ["LOSS_ADVICE", "Damage", "damage_in"]


_DAMAGE_ADVICE: Final = (
    "Nothing was changed. Bring the file back from a copy and start again, or keep what can still be read with "
    "`klamm log verify DIR --repair`."
)
"""The end of a message about damaged data."""

LOSS_ADVICE: Final = (
    "Nothing was changed. Bring what is missing back from a copy and start again, or accept the loss with "
    "`klamm log verify DIR --repair`."
)
"""The end of a message about missing data."""


class Damage(Exception):
    """Records that were on the disk are lost. The broker does not repair this by ignoring the loss."""


def damage_in(segment: Segment, error: BadBatch, offset: Offset | None = None) -> Damage:
    """Creates the error for a bad batch among those that were on the disk.

    `offset` is the first one that can't be trusted. If it is not given, it is looked up, and left out of the message if
    the batches before it are damaged, too.
    """
    offset = offset if offset is not None else _offset_at(segment, error.position)
    where = f"offset {offset}, " if offset is not None else ""
    return Damage(f"{segment.path} is damaged at {where}position {error.position}: {error}. {_DAMAGE_ADVICE}")


def _offset_at(segment: Segment, position: int) -> Offset | None:
    """Returns the offset after the batch that ends at `position`, None if it can't be read."""
    offset = segment.base_offset
    try:
        start = segment.offset_index.last_entry_up_to(position - 1)[1]
        for batch in scan_bounds(segment.descriptor, start, position):
            offset = Offset(batch.last_offset + 1)
    except (BadBatch, CorruptIndex, OSError):
        return None
    return offset
