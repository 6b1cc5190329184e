"""A group's changes in order, with the gaps between them and the repeated records."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from klamm.core.group.history.history_record import HistoryRecord

__all__ = ["Change", "Entry", "Gap", "Repeat", "Timeline"]


class Change(NamedTuple):
    """A change of the group."""

    record: HistoryRecord


class Gap(NamedTuple):
    """Changes before this one are missing: the group's coordinator crashed before it wrote them."""

    text: str


class Repeat(NamedTuple):
    """A record that was written twice; only the first one counts."""

    record: HistoryRecord


Entry: TypeAlias = Change | Gap | Repeat


class Timeline:
    """Finds the gaps and repeats in one group's records, which are added in the order of their offsets."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int, int]] = set()
        self._last: HistoryRecord | None = None

    def add(self, record: HistoryRecord) -> list[Entry]:
        """Returns the entries for a record: a repeat, or the change, preceded by the gap if there is one."""
        # With the time, because the sequence restarts at 0 under the same coordinator epoch after the group was
        # deleted. A record that is written again keeps its time.
        place = (record.coordinator_epoch, record.sequence, record.finished_ms)
        if place in self._seen:
            return [Repeat(record)]
        self._seen.add(place)
        missing = self._missing_before(record)
        self._last = record
        return [Change(record)] if missing is None else [Gap(missing), Change(record)]

    def _missing_before(self, record: HistoryRecord) -> str | None:
        last = self._last
        if last is None:
            return None  # retention may have deleted earlier records
        if record.coordinator_epoch == last.coordinator_epoch and record.sequence > last.sequence + 1:
            number = record.sequence - last.sequence - 1
            return f"{number} {'change is' if number == 1 else 'changes are'} not on record"
        if record.previous_epoch == last.epoch or last.outcome == "deleted":
            return None
        if record.previous_epoch > last.epoch:
            first, until = last.epoch + 1, record.previous_epoch
            return (
                f"epoch {first} is not on record" if first == until else f"epochs {first} to {until} are not on record"
            )
        return f"the epoch went back from {last.epoch} to {record.previous_epoch}: what happened is not on record"
