"""The findings of a verification of a partition's files, and the repairs that they ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

__all__ = ["Finding", "Mend", "MendKind", "PartitionReport", "Severity"]


class Severity(StrEnum):
    """The severity of a finding."""

    DAMAGE = "damage"
    """Records that were on the disk are lost."""
    TORN_TAIL = "torn tail"
    """The log's end was being written when the broker or the machine stopped. The next start cuts it off."""
    DERIVED = "derived"
    """A file that can be rebuilt from the log."""
    NOTE = "note"
    """Not a problem, but worth knowing."""


class MendKind(StrEnum):
    """A kind of repair."""

    CUT = "cut"
    """Move the bytes after the last good batch into another file."""
    SALVAGE = "salvage"
    """Set the segment aside and replace it by a copy of its good batches."""
    SET_ASIDE = "set aside"
    """Set the file aside. The next start rebuilds it."""
    ACCEPT = "accept"
    """Accept the current end of the log."""
    ACCEPT_START = "accept start"
    """Accept the current beginning of the log."""
    ACCEPT_GAP = "accept gap"
    """Accept the gap: the log continues after the lost records."""
    BEGIN_AGAIN = "begin again"
    """Create an empty log that begins at the last known end, so that no offset is assigned twice."""
    REMOVE = "remove"
    """Remove the file. The next start rebuilds it."""


class Mend(NamedTuple):
    """A repair of one file."""

    kind: MendKind
    path: Path
    keep: tuple[tuple[int, int], ...] = ()
    """The good parts of a segment as (start, end); for a segment that is cut, the part before the cut."""
    recover_from: int | None = None
    """The offset from which the next start must check the log."""
    gaps: tuple[tuple[int, int], ...] = ()
    """The offsets that will be missing, as (first, end). The next start does not treat them as damage."""
    log_start_offset: int | None = None
    """The new log start offset, if it changes."""


class Finding(NamedTuple):
    """One deviation from the expected state."""

    severity: Severity
    path: Path
    text: str
    position: int | None = None
    offset: int | None = None
    """The first offset that is affected."""
    mend: Mend | None = None


@dataclass(slots=True)
class PartitionReport:
    """The result of verifying one partition's folder."""

    folder: Path
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0
    log_end_offset: int = 0
    """The offset after the last good batch."""
    findings: list[Finding] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Adds findings."""
        self.findings.extend(findings)
