"""The errors of the sink. Wrong options raise `OptionError`, as in the source."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["ColumnError", "RowRefused", "StagedFileMissing", "StagingDamaged", "WriteFailed"]


class ColumnError(KlammError):
    """A column that the sink needs is missing, or has another type."""


class RowRefused(KlammError):
    """A row can't become a record: its topic is null, or its partition does not exist."""


class WriteFailed(KlammError):
    """Rows were not written. At least once: some of the records of the task may be in their topics."""


class StagedFileMissing(WriteFailed):
    """The file of a task is not in the staging folder."""


class StagingDamaged(KlammError):
    """The staged batches of a task are not the batches that the task has written."""
