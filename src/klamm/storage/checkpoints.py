"""The small text files of a data directory: offset checkpoints, leader epochs, topic ids, the clean shutdown mark.

An offset checkpoint is a line with the version 0, a line with the number of entries, and for each a line `topic
partition offset`; a leader epoch checkpoint has lines `epoch start-offset`.

Source: `storage/internals/checkpoint/` and `server/common/CheckpointFile.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from klamm.core.log.leader_epoch import EpochEntry
from klamm.protocol.types import ZERO_TOPIC_ID, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.storage.atomic_file import write_atomically, write_file

__all__ = [
    "CLEAN_SHUTDOWN_FILE",
    "LEADER_EPOCH_FILE",
    "LOG_START_OFFSET_FILE",
    "MalformedCheckpoint",
    "PARTITION_METADATA_FILE",
    "RECOVERY_POINT_FILE",
    "REPLICATION_OFFSET_FILE",
    "encode_leader_epochs",
    "encode_offsets",
    "read_leader_epochs",
    "read_offsets",
    "read_topic_id",
    "take_clean_shutdown_mark",
    "write_clean_shutdown_mark",
    "write_topic_id",
]

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
REPLICATION_OFFSET_FILE: Final = "replication-offset-checkpoint"
LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

_VERSION: Final = 0


class MalformedCheckpoint(Exception):
    """The file is malformed. The text names the file."""


def _encode(lines: list[str]) -> bytes:
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def _read(path: Path, fields: int) -> list[list[str]]:
    """Returns the fields of each entry; none if the file is missing or empty, as in Kafka."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint(f"{path} is no text") from error
    if not lines:
        return []
    if lines[0] != str(_VERSION):
        raise MalformedCheckpoint(f"{path} has version {lines[0]!r}, only {_VERSION} is known")
    entries = [line.split() for line in lines[2:]]
    if len(lines) < 2 or lines[1] != str(len(entries)) or any(len(entry) != fields for entry in entries):
        raise MalformedCheckpoint(f"{path} does not have the entries it says it has")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Returns the content of an offset checkpoint."""
    return _encode([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def read_offsets(path: Path) -> dict[TopicPartition, Offset]:
    """Reads the offsets of a checkpoint. Raises `MalformedCheckpoint`, OSError."""
    try:
        return {
            TopicPartition(topic, PartitionIndex(int(partition))): Offset(int(offset))
            for topic, partition, offset in _read(path, 3)
        }
    except ValueError as error:
        raise MalformedCheckpoint(f"{path} has an offset that is no number") from error


def encode_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Returns the content of a leader epoch checkpoint."""
    return _encode([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def read_leader_epochs(path: Path) -> list[EpochEntry]:
    """Reads the epochs of a checkpoint. Raises `MalformedCheckpoint`, OSError."""
    try:
        return [EpochEntry(LeaderEpoch(int(epoch)), Offset(int(start))) for epoch, start in _read(path, 2)]
    except ValueError as error:
        raise MalformedCheckpoint(f"{path} has an epoch that is no number") from error


def write_topic_id(directory: Path, topic_id: TopicId) -> None:
    """Writes the topic id into a partition's new folder. Raises OSError.

    It is not synced, because the metadata store has the id, too.
    """
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    write_file(directory / PARTITION_METADATA_FILE, f"version: {_VERSION}\ntopic_id: {text}".encode("ascii"))


def read_topic_id(directory: Path) -> TopicId:
    """Reads the topic id from a partition's folder. Returns the zero id if there is none or it is malformed.

    Raises OSError.
    """
    try:
        content = (directory / PARTITION_METADATA_FILE).read_bytes()
    except FileNotFoundError:
        return ZERO_TOPIC_ID
    try:
        fields = dict(line.split(": ", 1) for line in content.decode("ascii").splitlines())
        topic_id = base64.b64decode(fields["topic_id"].strip() + "==", altchars=b"-_", validate=True)
    except (ValueError, KeyError):
        return ZERO_TOPIC_ID
    return TopicId(topic_id) if len(topic_id) == len(ZERO_TOPIC_ID) else ZERO_TOPIC_ID


def write_clean_shutdown_mark(directory: Path, broker_epoch: int) -> None:
    """Writes the mark that every log was closed cleanly, so that the next start can skip recovery. Raises OSError."""
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
    write_atomically(directory / CLEAN_SHUTDOWN_FILE, content)


def take_clean_shutdown_mark(directory: Path) -> bool:
    """Returns whether the last shutdown was clean, and removes the mark: a later crash must not find it.

    Raises OSError.
    """
    try:
        (directory / CLEAN_SHUTDOWN_FILE).unlink()
    except FileNotFoundError:
        return False
    return True
