"""The names of the metadata files in a data directory: klamm's store, and the metadata log of Apache Kafka.

Source: `snapshot/Snapshots.java`, `metadata/bootstrap/BootstrapDirectory.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from klamm.protocol.types import LeaderEpoch, Offset

__all__ = [
    "BOOTSTRAP_FILE",
    "FIRST_SNAPSHOT",
    "METADATA_FILE",
    "METADATA_FOLDER",
    "SnapshotName",
    "parse_snapshot_name",
]

METADATA_FILE: Final = "metadata.sqlite"
"""The file with klamm's metadata."""

METADATA_FOLDER: Final = "__cluster_metadata-0"
"""The folder with Kafka's metadata log and its snapshots."""

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
"""The file with the first records of a Kafka cluster whose metadata log is empty."""

FIRST_SNAPSHOT: Final = f"{0:020d}-{0:010d}.checkpoint"
"""The snapshot that `kafka-storage format` writes: the voters of a dynamic quorum (KIP-853)."""

_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotName(NamedTuple):
    """The parsed name of a snapshot, which holds everything before `end_offset`."""

    end_offset: Offset
    epoch: LeaderEpoch


def parse_snapshot_name(name: str) -> SnapshotName | None:
    """Returns the parsed name of a snapshot of the metadata log, None for any other name."""
    match = _SNAPSHOT_NAME.fullmatch(name)
    return SnapshotName(Offset(int(match[1])), LeaderEpoch(int(match[2]))) if match else None
