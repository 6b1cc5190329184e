"""What a look through a partition's files has found, and what would mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

__all__ = ["Finding", "Mend", "MendKind", "PartitionReport", "Severity"]


class Severity(StrEnum):
    """How bad it is."""

    damage = "damage"
    """Records that were on the disk are not there any more."""
    torn_tail = "torn tail"
    """The end of a log that was being written when the broker or the machine stopped: the next start cuts it off."""
    derived = "derived"
    """A file that can be built anew from the log."""
    note = "note"
    """Nothing is wrong, but worth knowing."""


class MendKind(StrEnum):
    """What can be done about it."""

    cut = "cut"
    """Put the bytes from the end of the last good batch on aside."""
    salvage = "salvage"
    """Put the segment aside, and a copy of its good batches in its place."""
    set_aside = "set aside"
    """Put the file aside: it is built anew at the next start."""
    accept = "accept"
    """Let the log end where it ends."""
    accept_start = "accept start"
    """Let the log begin where it begins."""
    accept_gap = "accept gap"
    """Let the log go on behind the records that are gone."""
    begin_anew = "begin anew"
    """Let the log begin, empty, where it was last known to end: no offset is given away twice."""
    remove = "remove"
    """Remove the file: it is built anew at the next start."""


class Mend(NamedTuple):
    """What to do with a file."""

    kind: MendKind
    path: Path
    keep: tuple[tuple[int, int], ...] = ()
    """The parts of a segment that are good, as start and end; of one that is cut, the part before."""
    recover_from: int | None = None
    """The offset from which the next start must look through the log."""
    gaps: tuple[tuple[int, int], ...] = ()
    """The offsets that will be missing, from and up to: the next start takes them for no damage."""
    log_start_offset: int | None = None
    """Where the log begins then, if that changes."""


class Finding(NamedTuple):
    """One thing that is not as it should be."""

    severity: Severity
    path: Path
    text: str
    position: int | None = None
    offset: int | None = None
    """The first offset that is concerned."""
    mend: Mend | None = None


@dataclass(slots=True)
class PartitionReport:
    """What was looked at in the folder of a partition, and what was found."""

    folder: Path
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0
    log_end_offset: int = 0
    """Behind the last good batch."""
    findings: list[Finding] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Notes findings."""
        self.findings.extend(findings)
