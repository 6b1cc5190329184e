"""Stores the start offsets of a query in its checkpoint, for a repetition of the first micro-batch.

The checkpoint itself holds only end offsets. If the first micro-batch is repeated after a crash, its start may resolve
to other offsets: `earliest` may be later, a time may have another first record, the group may have committed. The
micro-batch would then read other records, and deleted records would not count as lost. Spark's own source writes the
start into a file, `sources/N/0` (`KafkaSourceInitialOffsetWriter`). This source does the same, in the same form, if the
driver knows the checkpoint.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.folders import Folder, absolute_location, folder_at, without_credentials
from klamm.spark.query_checkpoints import SourceCheckpoint
from klamm.spark.source.errors import OptionError
from klamm.spark.source.offsets import PartitionOffsets, offsets_from_json, offsets_to_json

__all__ = ["InitialOffsets"]

_logger = logging.getLogger(__name__)

# The zero byte is for Spark 2.1.0, as in Spark's own file.
_HEADER: Final = b"\0v1\n"


class InitialOffsets:
    """The file with the start offsets of one source of one query. Stores nothing if the checkpoint is unknown."""

    def __init__(self, checkpoints: Callable[[], Sequence[SourceCheckpoint]] = tuple) -> None:
        """Takes the lookup of the query's checkpoints. The file is used only if the lookup returns exactly one."""
        self._checkpoints = checkpoints

    def kept(self, resolve: Callable[[], PartitionOffsets]) -> PartitionOffsets:
        """Returns the offsets in the file; without a file, those of `resolve`, which it then stores.

        Logs a warning if the checkpoint can't be read or written. Raises what `resolve` raises.
        """
        places = self._checkpoints()
        if len(places) != 1:
            return resolve()
        name = f"sources/{places[0].source}/0"
        place = f"{without_credentials(places[0].location)}/{name}"
        try:
            folder = folder_at(absolute_location(places[0].location))
            if (found := _read(folder, name)) is not None:
                return found
        except (OSError, OptionError, ValueError) as error:
            _logger.warning("%s, where the query started, can't be read: %s", place, error)
            return resolve()
        start = resolve()
        try:
            _write(folder, name, start)
        except OSError as error:
            _logger.warning("%s, where the query starts, can't be written: %s", place, error)
        return start


def _read(folder: Folder, name: str) -> PartitionOffsets | None:
    """Reads the offsets; None without a file. Raises `OSError`; `ValueError` or `OptionError` for another form than
    Spark's."""
    content = folder.read(name)
    if content is None:
        return None
    if not content.startswith(_HEADER):
        raise ValueError(f"it begins with {content[: len(_HEADER)]!r} instead of {_HEADER!r}")
    return offsets_from_json(json.loads(content[len(_HEADER) :]))


def _write(folder: Folder, name: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Writes the file atomically, if the file system renames atomically. Raises `OSError`."""
    folder.replace(name, _HEADER + json.dumps(offsets_to_json(offsets), separators=(",", ":")).encode())
