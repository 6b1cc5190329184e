"""The errors of an exactly-once sink that stops because it can't tell whether a micro-batch is in its topics."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["CheckpointUnreadable", "MarkerConflict", "MarkerDamaged", "MarkerMissing"]


class CheckpointUnreadable(KlammError):
    """The checkpoint's files, which identify a micro-batch, can't be read."""


class MarkerDamaged(KlammError):
    """The commit in the marker's place was not written by the sink."""


class MarkerMissing(KlammError):
    """There is no marker, and the micro-batch may be in the topics already."""


class MarkerConflict(KlammError):
    """The marker and the checkpoint have different histories of the query."""
