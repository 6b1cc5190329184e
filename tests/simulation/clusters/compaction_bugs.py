"""Planted bugs of compacted logs in replicated partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from klamm.core.log.compaction import CleaningPlan
from klamm.storage.log import log_compaction
from klamm.storage.log.log_compaction import LogCompaction

__all__ = ["COMPACTION_BUGS"]


@contextmanager
def _compact_uncommitted_records() -> Iterator[None]:
    """A cleaning drops a committed record because of a newer record of its key that may still be truncated."""
    plan_cleaning: Callable[..., CleaningPlan] = vars(log_compaction)["plan_cleaning"]

    def plan(*arguments: Any, **options: Any) -> CleaningPlan:
        return plan_cleaning(*arguments, **{**options, "last_stable_offset": options["log_end_offset"]})

    with patch.object(log_compaction, "plan_cleaning", plan):
        yield


@contextmanager
def _compact_aborted_records() -> Iterator[None]:
    """A cleaning drops a committed record because of a newer record of its key that belongs to an aborted
    transaction."""
    with patch.object(LogCompaction, "aborted_below", lambda *arguments: []):
        yield


COMPACTION_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "compact uncommitted records": _compact_uncommitted_records,
    "compact aborted records": _compact_aborted_records,
}
"""Bugs of compacted logs."""
