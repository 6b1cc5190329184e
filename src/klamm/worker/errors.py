"""The errors of workers."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["ProcessFailure", "ProcessNotReady", "RecordFailed", "UndecodableRecords", "WorkerError"]


class WorkerError(KlammError):
    """A worker can't be declared like this, or can't go on."""


class RecordFailed(WorkerError):
    """A record has failed for the last time, and its handler has no dead letters."""


class ProcessNotReady(WorkerError):
    """The processes of a handler end before they are ready. The handler was not called."""


class ProcessFailure(WorkerError):
    """A handler failed in its process, or the process died."""


class UndecodableRecords(ProcessFailure):
    """Values of a run do not decode in the handler's process. The handler was not called."""

    def __init__(self, text: str, positions: tuple[int, ...]) -> None:
        super().__init__(text)
        self.positions = positions
        """The places of the bad records in the run."""
