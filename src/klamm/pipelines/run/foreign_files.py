"""Refuses a folder of files that has the micro-batches of another checkpoint.

Spark's file sink tells micro-batches by their numbers alone, which it keeps with its list of files. It skips a
micro-batch whose number is not above the newest one in the list, and says so only in its log (Spark:
`FileStreamSink.addBatch`). A flow with a new checkpoint, or a second flow with the same folder, would lose the records
of all these micro-batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.sinks import ToFiles
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.backfill.file_sink_log import newest_micro_batch
from klamm.pipelines.run.backfill.hadoop_files import HadoopFiles
from klamm.pipelines.run.checkpoint_reader import read_state
from klamm.pipelines.run.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["refuse_foreign_files"]


def refuse_foreign_files(spark: SparkSession, place: Place, flow: Flow) -> None:
    """Raises `DeclarationError` if the folder of the flow's files is ahead of the flow's checkpoint.

    Raises `OSError`, and py4j's errors if the folder can't be read.
    """
    if not isinstance(flow.sink, ToFiles):
        return
    path = place.files_path(flow.sink)
    assert path is not None
    listed = newest_micro_batch(HadoopFiles(spark, path))
    planned = read_state(place.checkpoint(flow.name)).planned
    if listed is None or (planned is not None and listed <= planned):
        return
    own = "has no micro-batch" if planned is None else f"ends with micro-batch {planned}"
    raise DeclarationError(
        f"flow {flow.name}: the files in {path} are of another checkpoint: their list ends with micro-batch {listed}, "
        f"and the flow's checkpoint {own}. Spark would skip the flow's micro-batches up to {listed}, and lose their "
        "records. Choose another path; or, to write these files again from the flow's start, remove this folder"
    )
