"""What is stored of a backfill, so that the same command continues it after an interruption."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.backfill_range import SourceRange
from klamm.pipelines.run.place import Place
from klamm.spark.folders import folder_at
from klamm.spark.source.errors import OptionError
from klamm.spark.source.offsets import offsets_from_json

__all__ = [
    "CHECKPOINT",
    "ROWS",
    "Arguments",
    "BackfillRecord",
    "Counts",
    "backfills_folder",
    "read_records",
    "unfinished",
    "unfinished_replacement",
]

_FILE: Final = "backfill.json"
ROWS: Final = "rows"
"""The name of the subfolder with computed rows."""
CHECKPOINT: Final = "checkpoint"
"""The name of the subfolder with the checkpoint of the query that writes them."""

Phase = Literal["computing", "computed", "claimed", "replacing", "finished"]
"""`computed`: the rows are stored, and are written from there. `claimed`: files of the live sink are checked, to be
replaced. `replacing`: they are replaced."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments that make two commands the same backfill, as the user wrote them."""

    begin: str
    end: str | None
    into: str
    where: str | None

    @property
    def id(self) -> str:
        """The name of the backfill's folder."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:12]

    def __str__(self) -> str:
        end = "" if self.end is None else f" --to {self.end}"
        where = "" if self.where is None else f" --where {json.dumps(self.where)}"
        return f"--from {self.begin}{end} --into {self.into}{where}"


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a backfill. None where Spark has not told them."""

    records: int | None = None
    bad_records: int | None = None
    rows: int | None = None


@dataclass(slots=True)
class BackfillRecord:
    """The stored state of one backfill."""

    folder: str
    arguments: Arguments
    ranges: dict[str, SourceRange]
    """By parameter of the flow's function."""
    begun_ms: int
    phase: Phase = "computing"
    counts: Counts = field(default_factory=Counts)
    replacement: dict[str, Any] | None = None
    """The files of a replacement that has begun."""
    target: str | None = None
    """The topic or folder to which the backfill writes, with a whole path; None in a record of an older version."""

    def store(self) -> None:
        """Replaces the file. Raises `OSError`."""
        fields = {
            "arguments": asdict(self.arguments),
            "ranges": {parameter: each.as_json() for parameter, each in self.ranges.items()},
            "begun_ms": self.begun_ms,
            "phase": self.phase,
            "counts": asdict(self.counts),
            "replacement": self.replacement,
            "target": self.target,
        }
        folder_at(self.folder).replace(_FILE, json.dumps(fields, indent=2).encode())

    def clean(self) -> None:
        """Removes the stored rows and the checkpoint. Raises `OSError`."""
        for name in (ROWS, CHECKPOINT):
            folder_at(self.folder).remove_folder(name)

    def forget(self) -> None:
        """Removes the file first, then the folder. Raises `OSError`."""
        folder_at(self.folder).remove_file(_FILE)
        above, _, name = self.folder.rpartition("/")
        folder_at(above).remove_folder(name)


def backfills_folder(place: Place, flow: Flow) -> str:
    """Returns the folder of all backfills of a flow, next to the flow's own."""
    return place.flow_folder(f"{flow.name}.backfill")


def unfinished(place: Place, flow: Flow, arguments: Arguments) -> BackfillRecord | None:
    """Returns the record of a backfill with the same arguments that was interrupted. Raises `OSError`."""
    found = next((each for each in read_records(place, flow) if each.arguments == arguments), None)
    return None if found is None or found.phase == "finished" else found


def unfinished_replacement(place: Place, flow: Flow) -> BackfillRecord | None:
    """Returns the record of a backfill that replaces files of the flow now, or was interrupted while it did.

    Raises `OSError`, and `PipelineError` for a record that can't be read.
    """
    return next((each for each in read_records(place, flow) if each.phase == "replacing"), None)


def read_records(place: Place, flow: Flow) -> Iterator[BackfillRecord]:
    """Yields the records of a flow's backfills. Raises `OSError`, and `PipelineError` for one that can't be read."""
    root = backfills_folder(place, flow)
    for name in folder_at(root).names(""):
        content = folder_at(f"{root}/{name}").read(_FILE) if "." not in name else None
        if content is None:
            continue
        try:
            yield _parsed(f"{root}/{name}", json.loads(content))
        except (ValueError, TypeError, KeyError, OptionError) as error:
            raise PipelineError(
                f"{root}/{name}/{_FILE} is of another version of klamm, or damaged: {error}. To give up this backfill, "
                "delete its folder"
            ) from None


def _parsed(folder: str, fields: Mapping[str, Any]) -> BackfillRecord:
    ranges = {
        parameter: SourceRange(offsets_from_json(each["starts"]), offsets_from_json(each["ends"]))
        for parameter, each in fields["ranges"].items()
    }
    return BackfillRecord(
        folder,
        Arguments(**fields["arguments"]),
        ranges,
        fields["begun_ms"],
        fields["phase"],
        Counts(**fields["counts"]),
        fields["replacement"],
        fields.get("target"),
    )
