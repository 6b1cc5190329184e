"""Removes what a kill leaves in a checkpoint without a micro-batch.

Spark writes `offsets/0` as a hidden temporary file, which it renames. A kill in between leaves the temporary file, and
Spark then refuses the checkpoint at each start with STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY: without a micro-batch,
its logs have to be empty (`spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart`).
"""

from __future__ import annotations

from klamm.pipelines.run.checkpoint_reader import read_state
from klamm.spark.folders import absolute_location, folder_at

__all__ = ["remove_unfinished_files"]


def remove_unfinished_files(location: str) -> None:
    """Removes temporary files from the log of offsets if no micro-batch is planned. Raises `OSError`.

    Call it before the query starts, and only if no other query uses the checkpoint.
    """
    if read_state(location).planned is not None:
        return
    folder = folder_at(absolute_location(location))
    for name in folder.names("offsets"):
        if name.startswith("."):
            folder.remove_file(f"offsets/{name}")
