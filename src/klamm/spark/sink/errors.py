"""The errors of the sink. Wrong options raise `OptionError`, as in the source."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["ColumnError", "RowRefused", "WriteFailed"]


class ColumnError(KlammError):
    """A column that the sink needs is missing, or has another type."""


class RowRefused(KlammError):
    """A row can't become a record: its topic is null, or its partition does not exist."""


class WriteFailed(KlammError):
    """Records of a task were not acknowledged. Some of the task's records may be in their topics."""
