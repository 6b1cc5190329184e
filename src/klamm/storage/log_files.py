"""The names of files and folders in a data directory.

They are Kafka's, except for the suffix of quarantined files and the names of deleted log files.

Source: `storage/internals/log/LogFileUtils.java`, `LocalLog.java` (`logDeleteDirName`) of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

__all__ = [
    "CLEANED_SUFFIX",
    "DELETED_DIRECTORY_SUFFIX",
    "DELETED_SUFFIX",
    "INDEX_SUFFIX",
    "LOG_SUFFIX",
    "QUARANTINE_SUFFIX",
    "SNAPSHOT_SUFFIX",
    "STRAY_DIRECTORY_SUFFIX",
    "SWAP_SUFFIX",
    "TIME_INDEX_SUFFIX",
    "TRANSACTION_INDEX_SUFFIX",
    "deleted_to",
    "file_name",
    "let_go_name",
    "parse_directory_name",
    "parse_offset",
    "retired_directory_name",
]

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
QUARANTINE_SUFFIX: Final = ".quarantined"
"""The suffix of files that a repair has set aside. No broker reads them."""
DELETED_DIRECTORY_SUFFIX: Final = "-delete"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"

_OFFSET_DIGITS: Final = 20
_LONGEST_NAME: Final = 255
_LET_GO: Final = re.compile(rf"\d{{20}}{re.escape(LOG_SUFFIX)}\.(?P<start>\d{{20}}){re.escape(DELETED_SUFFIX)}")
_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")


def file_name(offset: int, suffix: str) -> str:
    """Returns the name of the segment file or producer snapshot with this suffix at `offset`."""
    return f"{offset:020d}{suffix}"


def parse_offset(name: str) -> Offset | None:
    """Returns the offset at the beginning of a file name, None if the name has none."""
    digits, dot, _ = name.partition(".")
    return Offset(int(digits)) if dot and len(digits) == _OFFSET_DIGITS and digits.isdigit() else None


def let_go_name(name: str, log_start_offset: int) -> str:
    """Returns the new name of the log file of a deleted segment. It contains the new log start offset."""
    return f"{name}.{log_start_offset:020d}{DELETED_SUFFIX}"


def deleted_to(name: str) -> Offset | None:
    """Returns the log start offset in the name of a deleted segment's log file, None for any other name."""
    match = _LET_GO.fullmatch(name)
    return Offset(int(match["start"])) if match else None


def parse_directory_name(name: str) -> TopicPartition | None:
    """Returns the partition of a folder with this name, None for any other name."""
    match = _DIRECTORY.fullmatch(name)
    return TopicPartition(match["topic"], PartitionIndex(int(match["partition"]))) if match else None


def retired_directory_name(topic_partition: TopicPartition, suffix: str) -> str:
    """Returns a unique folder name for a partition that is to be deleted or is unknown.

    The name is shortened to the limit of file systems.
    """
    tail = f".{uuid.uuid4().hex}{suffix}"
    return f"{topic_partition}"[: _LONGEST_NAME - len(tail)] + tail
