"""The errors of the sink. Wrong options raise `OptionError`, as in the source."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.errors import KlammError

__all__ = ["ColumnError", "RowRefused", "StagedFileMissing", "StagingDamaged", "WriteFailed", "require_all_messages"]


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


def require_all_messages(messages: Sequence[object | None], batch_id: int | None) -> None:
    """Raises `WriteFailed` if a task has passed no message to the commit: then the sink has not seen its rows.

    With `trigger(continuous=…)`, Spark 4.3 calls `commit` of a sink in Python, but never its `write`.
    """
    if None in messages:
        where = "" if batch_id is None else f"micro-batch {batch_id}: "
        raise WriteFailed(
            f"{where}the message of a task is missing, so its rows are not written. Spark passes no rows to a sink in "
            "Python with trigger(continuous=…): use another trigger"
        )
