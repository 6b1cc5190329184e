"""The errors of workers."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["RecordFailed", "WorkerError"]


class WorkerError(KlammError):
    """A worker can't be declared like this, or can't go on."""


class RecordFailed(WorkerError):
    """A record has failed for the last time, and its handler has no dead letters."""
