"""Reads what identifies a micro-batch from the files of a query's checkpoint."""

from __future__ import annotations

from klamm.spark.folders import Folder, folder_at, without_credentials
from klamm.spark.sink.checkpoint_batch import CheckpointBatch, query_id_of
from klamm.spark.sink.marker_errors import CheckpointUnreadable

__all__ = ["read_batch"]


def read_batch(location: str, batch_id: int, run_id: str) -> CheckpointBatch:
    """Describes a micro-batch of the query whose checkpoint is at `location`, as `run_id` writes it.

    Raises `CheckpointUnreadable`.
    """
    place = without_credentials(location)
    try:
        folder = folder_at(location)
        query_id = query_id_of(_read(folder, place, "metadata"))
        return CheckpointBatch.of(
            query_id=query_id,
            batch_id=batch_id,
            run_id=run_id,
            offsets=_read(folder, place, f"offsets/{batch_id}"),
            previous_offsets=None if batch_id == 0 else folder.read(f"offsets/{batch_id - 1}"),
        )
    except OSError as error:
        raise CheckpointUnreadable(
            f"micro-batch {batch_id}: the driver can't read the checkpoint {place}: {error}. The sink reads it by "
            "pyarrow.fs, or as a local path if the option checkpointLocation has no scheme"
        ) from error


def _read(folder: Folder, place: str, name: str) -> bytes:
    content = folder.read(name)
    if content is None:
        raise CheckpointUnreadable(
            f"the checkpoint {place} has no file {name!r}: set the option checkpointLocation of the sink to the "
            "checkpoint of the query, with its scheme if it is not a local path"
        )
    return content
