"""The rows of a backfill as records of a topic, once also after interruptions.

A batch write has nothing that says what an earlier attempt has written. So the rows are stored in the backfill's folder
first, and a streaming query with a checkpoint writes them from there, with the guarantee that the flow's sink declares.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from klamm.pipelines.declare.sinks import ToTopic
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.backfill_record import CHECKPOINT, ROWS, BackfillRecord
from klamm.pipelines.run.error_texts import texts_of
from klamm.pipelines.run.flow_queries import topic_options
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.written_topics import create_topic_for
from klamm.pipelines.status.query_reports import batch_report, new_progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["store_rows", "write_stored_rows"]

_FORMAT: Final = "parquet"
_ROWS_PER_FILE: Final = 200_000
_BATCH_BYTES: Final = 32 * 1024 * 1024
"""The stored bytes of a micro-batch, which one transaction writes."""
_LOOK_INTERVAL_S: Final = 0.1


def store_rows(rows: DataFrame, record: BackfillRecord) -> None:
    """Stores the rows as files, in place of what an earlier attempt has left."""
    writer = rows.write.format(_FORMAT).mode("overwrite").option("maxRecordsPerFile", _ROWS_PER_FILE)
    writer.option("partitionOverwriteMode", "static").save(_folder(record))


def write_stored_rows(
    spark: SparkSession, place: Place, sink: ToTopic, record: BackfillRecord, report: Callable[[int], None]
) -> None:
    """Writes the stored rows; continues where an earlier attempt has ended. Reports the number of rows so far.

    Raises `PipelineError` if the query fails, and what the cluster raises.
    """
    create_topic_for(place, sink.topic)
    stored = spark.read.format(_FORMAT).load(_folder(record))
    rows = spark.readStream.format(_FORMAT).schema(stored.schema).option("maxBytesPerTrigger", _BATCH_BYTES)
    options = {**sink.options, **topic_options(place, sink.topic, sink.semantics)}
    writer = rows.load(_folder(record)).writeStream.format("klamm").options(**options)
    writer = writer.option("checkpointLocation", f"{record.folder}/{CHECKPOINT}")
    query = writer.trigger(availableNow=True).start()
    seen, written = None, 0
    try:
        while True:
            is_active = query.isActive
            for progress in new_progress(query, seen):
                seen = progress["timestamp"]
                batch = batch_report(progress)
                written += 0 if batch is None else batch.records
                report(written)
            if not is_active:
                break
            time.sleep(_LOOK_INTERVAL_S)
    finally:
        if query.isActive:
            query.stop()
    if query.exception() is not None:
        raise PipelineError(f"topic {sink.topic}: {texts_of(query)[0]}")


def _folder(record: BackfillRecord) -> str:
    return f"{record.folder}/{ROWS}"
