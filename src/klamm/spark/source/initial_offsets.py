"""Where a query started, kept in its checkpoint until the first micro-batch is finished.

The offsets in a checkpoint are ends. When the first micro-batch is done again, after a crash in it, `earliest` may be
later than it was, a time may have another first record, the group may have gone on: the micro-batch would bring other
records than before, and what has been deleted since would not be missed. Spark's own source writes the start into a
file, `sources/N/0` (`KafkaSourceInitialOffsetWriter`), and so does this one, in the same form, if the driver says where
the checkpoint is.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.query_checkpoints import SourceCheckpoint
from klamm.spark.source.checkpoint_log import open_location
from klamm.spark.source.errors import OptionError
from klamm.spark.source.offsets import PartitionOffsets, offsets_from_json, offsets_to_json

__all__ = ["InitialOffsets"]

_logger = logging.getLogger("klamm.spark")

# A zero byte for Spark 2.1.0, as in Spark's.
_HEADER: Final = b"\0v1\n"


class InitialOffsets:
    """The file of one source of one query. Nothing is kept where the checkpoint isn't known."""

    def __init__(self, checkpoints: Callable[[], Sequence[SourceCheckpoint]] = tuple) -> None:
        """`checkpoints` is asked when the file is wanted: who it belongs to is certain only if there is one answer."""
        self._checkpoints = checkpoints

    def kept(self, resolve: Callable[[], PartitionOffsets]) -> PartitionOffsets:
        """What the file says; if there is none, what `resolve` gives, from now on kept there.

        A checkpoint that can't be read or written is a warning. Raises what `resolve` raises.
        """
        places = self._checkpoints()
        if len(places) != 1:
            return resolve()
        place = f"{places[0].location}/sources/{places[0].source}/0"
        try:
            if (found := _read(place)) is not None:
                return found
        except (OSError, OptionError, ValueError) as error:
            _logger.warning("%s, where the query started, can't be read: %s", place, error)
            return resolve()
        start = resolve()
        try:
            _write(place, start)
        except OSError as error:
            _logger.warning("%s, where the query starts, can't be written: %s", place, error)
        return start


def _read(place: str) -> PartitionOffsets | None:
    """Raises `OSError`, and `ValueError` or `OptionError` for what is not of Spark's form."""
    files, path = open_location(place)
    if not files.get_file_info(path).is_file:
        return None
    with files.open_input_stream(path) as stream:
        content = bytes(stream.read())
    if not content.startswith(_HEADER):
        raise ValueError(f"it begins with {content[: len(_HEADER)]!r} instead of {_HEADER!r}")
    return offsets_from_json(json.loads(content[len(_HEADER) :]))


def _write(place: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Whole or not at all, as far as the file system can rename. Raises `OSError`."""
    files, path = open_location(place)
    folder = path.rsplit("/", 1)[0]
    unfinished = f"{folder}/.0.{uuid.uuid4()}.tmp"  # as Spark calls its own
    files.create_dir(folder, recursive=True)
    with files.open_output_stream(unfinished) as stream:
        stream.write(_HEADER + json.dumps(offsets_to_json(offsets), separators=(",", ":")).encode())
    files.move(unfinished, path)
