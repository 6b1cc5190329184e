"""A data source that is klamm's sink, and ends its process at a chosen point of the exactly-once protocol.

The points stay outside of the product: the subclasses here wrap its steps. When a process has ended at the point, every
later call of the sink ends its process too, until `revive`. Spark then sees a commit and an abort that failed, and
writes no commit log: the state that a driver leaves that was killed, in two seconds in place of twenty.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from klamm.client.producer.producer_config import ProducerConfig
from klamm.spark.data_source import KlammDataSource
from klamm.spark.sink.checkpoint_batch import CheckpointBatch
from klamm.spark.sink.exactly_once import ExactlyOnce
from klamm.spark.sink.marker import Marker
from klamm.spark.sink.marker_transaction import MarkerTransaction
from klamm.spark.sink.replay_decision import Replay
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.staged_batches import StagedBatch, StagedTask
from klamm.spark.sink.staging import TaskAttempt
from klamm.spark.sink.stream_writer import KlammStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

__all__ = ["POINTS", "POINTS_OPTION", "Points", "StoppingSink"]

POINTS = (
    "task begun",
    "task staged",
    "commit begun",
    "initialized",
    "decided",
    "first batch sent",
    "all acknowledged",
    "marker moved",
    "committed",
    "cleaned",
)
POINTS_OPTION = "points"


class Points:
    """The plan of a test, in a folder that all processes see."""

    def __init__(self, folder: Path) -> None:
        self._plan, self._dead = folder / "plan", folder / "dead"

    def stop_at(self, point: str, batch_id: int) -> None:
        """Plans the end of the first process that reaches this point."""
        assert point in POINTS
        self._plan.write_text(f"{batch_id} {point}")

    @property
    def was_reached(self) -> bool:
        """Whether a process has ended at the point."""
        return self._dead.exists()

    def revive(self) -> None:
        """Lets the sink work again."""
        self._plan.unlink(missing_ok=True)
        self._dead.unlink(missing_ok=True)

    def reach(self, point: str, batch_id: int) -> None:
        """Ends this process if that is planned, or if the driver counts as dead."""
        if self._dead.exists():
            os._exit(9)
        if self._plan.exists() and self._plan.read_text() == f"{batch_id} {point}":
            self._dead.write_text("")
            os._exit(9)


class _Transaction(MarkerTransaction):
    def __init__(self, config: ProducerConfig, batch: CheckpointBatch, marker_topic: str, points: Points) -> None:
        super().__init__(config, batch, marker_topic)
        self._points = points
        self._sent = 0

    def _reach(self, point: str) -> None:
        self._points.reach(point, self.batch.batch_id)

    def initialize(self) -> None:
        super().initialize()
        self._reach("initialized")

    def decide(self, marker: Marker | None, first_batch: int | None) -> Replay:
        decision = super().decide(marker, first_batch)
        self._reach("decided")
        return decision

    def send_batch(self, batch: StagedBatch) -> None:
        super().send_batch(batch)
        self._sent += 1
        if self._sent == 1:
            self._producer.flush()
            self._reach("first batch sent")

    def flush(self) -> None:
        super().flush()
        self._reach("all acknowledged")

    def move_marker(self) -> None:
        super().move_marker()
        self._reach("marker moved")

    def end(self) -> None:
        super().end()
        self._reach("committed")


class _Delivery(ExactlyOnce):
    def __init__(self, options: SinkOptions, columns: SinkColumns, points: Points) -> None:
        super().__init__(options, columns)
        self._points = points

    def stage(self, attempt: TaskAttempt, tables: Iterator[pa.RecordBatch]) -> StagedTask:
        self._points.reach("task begun", attempt.batch_id)
        staged = super().stage(attempt, tables)
        self._points.reach("task staged", attempt.batch_id)
        return staged

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        assert batch_id is not None
        self._points.reach("commit begun", batch_id)
        super().commit(messages, batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        self._points.reach("abort begun", -1)
        super().abort(messages, batch_id)

    def open_transaction(self, batch: CheckpointBatch) -> MarkerTransaction:
        return _Transaction(self._options.producer, batch, self._settings.marker_topic, self._points)

    def clean(self, batch: CheckpointBatch) -> None:
        super().clean(batch)
        self._points.reach("cleaned", batch.batch_id)


class StoppingSink(KlammDataSource):
    """`format("klamm-stopping")`, with the folder of the points as an option."""

    @classmethod
    def name(cls) -> str:
        return "klamm-stopping"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KlammStreamWriter:
        options: dict[str, Any] = {key.lower(): value for key, value in self.options.items()}
        points = Points(Path(options.pop(POINTS_OPTION)))
        parsed = SinkOptions.parse(options)
        columns = SinkColumns.of(schema, parsed.topic)
        writer = KlammStreamWriter(parsed, columns)
        writer._delivery = _Delivery(parsed, columns, points)
        return writer
