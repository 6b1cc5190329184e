"""Names of the files in a data directory that hold metadata: klamm's store, and the metadata log of Apache Kafka.

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
"""The file in which klamm keeps its metadata."""

METADATA_FOLDER: Final = "__cluster_metadata-0"
"""The folder in which Kafka keeps its metadata log and the snapshots of it."""

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
"""The file with the records that a Kafka cluster begins with when its metadata log is empty."""

FIRST_SNAPSHOT: Final = f"{0:020d}-{0:010d}.checkpoint"
"""The snapshot that `kafka-storage format` writes: the voters of a quorum that can change (KIP-853)."""

_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotName(NamedTuple):
    """What the name of a snapshot says: the snapshot holds everything before the offset."""

    end_offset: Offset
    epoch: LeaderEpoch


def parse_snapshot_name(name: str) -> SnapshotName | None:
    """Returns what the name of a snapshot of the metadata log says, None for any other name."""
    match = _SNAPSHOT_NAME.fullmatch(name)
    return SnapshotName(Offset(int(match[1])), LeaderEpoch(int(match[2]))) if match else None
