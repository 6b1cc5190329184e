"""A data source that is klamm's sink, and ends or pauses its process at a chosen point of the exactly-once protocol.

The points stay outside of the product: the subclasses here wrap its steps. When a process has ended at the point of
`stop_at`, every later call of the sink ends its process too, until `revive`. Spark then sees a commit and an abort that
failed, and writes no commit log: the state that a driver leaves that was killed, in two seconds in place of twenty.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from klamm.client.producer.producer_config import ProducerConfig
from klamm.spark.data_source import KlammDataSource
from klamm.spark.sink.batch_writer import KlammBatchWriter
from klamm.spark.sink.checkpoint_batch import CheckpointBatch
from klamm.spark.sink.exactly_once import ExactlyOnce
from klamm.spark.sink.first_batch import FirstBatch
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

__all__ = ["POINTS", "POINTS_OPTION", "Points", "StoppingSink", "StoppingSinkUnderKlammsName"]

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
        self._plan, self._dead, self._paused = folder / "plan", folder / "dead", folder / "paused"
        self._file_limit = folder / "file-limit"
        self._log = folder / "sink.log"

    def stop_at(self, point: str, batch_id: int) -> None:
        """Plans the end of the first process that reaches this point, and with it of the driver."""
        self._set("stop", point, batch_id)

    def stop_once_at(self, point: str, batch_id: int) -> None:
        """Plans the end of the first process that reaches this point. Spark lives, and others do as usual."""
        self._set("stop once", point, batch_id)

    def raise_once_at(self, point: str, batch_id: int) -> None:
        """Plans an error in the first process that reaches this point."""
        self._set("raise once", point, batch_id)

    def pause_at(self, point: str, batch_id: int) -> None:
        """Plans that the first process that reaches this point waits there until `revive`."""
        self._set("pause", point, batch_id)

    def _set(self, what: str, point: str, batch_id: int) -> None:
        assert point in POINTS
        self._plan.write_text(json.dumps([what, point, batch_id]))

    def limit_files(self, size_bytes: int) -> None:
        """Lets writes beyond this size of a staged file fail, as on a full disk, until `revive`."""
        self._file_limit.write_text(str(size_bytes))

    @property
    def file_limit_bytes(self) -> int | None:
        """The size of `limit_files`."""
        return int(self._file_limit.read_text()) if self._file_limit.exists() else None

    @property
    def was_reached(self) -> bool:
        """Whether a process has ended or waits at the point."""
        return self._dead.exists() or self._paused.exists() or not self._plan.exists()

    def wait_for_pause(self) -> None:
        """Waits until a process has reached the point of `pause_at`."""
        deadline = time.monotonic() + 60
        while not self._paused.exists():
            assert time.monotonic() < deadline, "no process has come to the point"
            time.sleep(0.01)

    def revive(self) -> None:
        """Lets the sink work again."""
        for file in (self._plan, self._dead, self._paused, self._file_limit):
            file.unlink(missing_ok=True)

    def reach(self, point: str, batch_id: int) -> None:
        """Ends or pauses this process, or raises `RuntimeError`, if that is planned. Ends the process if the driver
        counts as dead."""
        if self._dead.exists():
            os._exit(9)
        if not self._plan.exists():
            return
        what, *where = json.loads(self._plan.read_text())
        if where != [point, batch_id]:
            return
        if what == "pause":
            self._pause()
            return
        if what == "stop":
            self._dead.write_text("")
        else:
            self._plan.unlink()
        if what == "raise once":
            raise RuntimeError(f"planned at the point {point!r}")
        os._exit(9)

    def _pause(self) -> None:
        if self._paused.exists():
            return
        self._paused.write_text("")
        while self._plan.exists():
            time.sleep(0.01)

    def record_log(self) -> None:
        """Appends what the sink logs in this process to the text of `log`."""
        logging.getLogger("klamm.spark.sink").addHandler(logging.FileHandler(self._log))

    def log(self) -> str:
        """What the sink has logged in its aborts."""
        return self._log.read_text() if self._log.exists() else ""


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

    def decide(self, marker: Marker | None, first_batch: FirstBatch | None) -> Replay:
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
        with _limited_files(self._points.file_limit_bytes):
            staged = super().stage(attempt, tables)
        self._points.reach("task staged", attempt.batch_id)
        return staged

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        assert batch_id is not None
        self._points.reach("commit begun", batch_id)
        super().commit(messages, batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        self._points.reach("abort begun", -1)
        self._points.record_log()
        super().abort(messages, batch_id)

    def open_transaction(self, batch: CheckpointBatch) -> MarkerTransaction:
        return _Transaction(self._options.producer, batch, self._settings.marker_topic, self._points)

    def clean(self, batch: CheckpointBatch) -> None:
        super().clean(batch)
        self._points.reach("cleaned", batch.batch_id)


@contextlib.contextmanager
def _limited_files(size_bytes: int | None) -> Iterator[None]:
    """Lets this process write no file beyond a size: the write fails with EFBIG."""
    if size_bytes is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Without a handler the signal would end the process.
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        # Spark uses this process for other tasks.
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


class StoppingSink(KlammDataSource):
    """`format("klamm-stopping")`, with the folder of the points as an option; by default that of the checkpoint."""

    @classmethod
    def name(cls) -> str:
        return "klamm-stopping"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KlammStreamWriter:
        parsed, columns, points = self._parsed(schema)
        writer = KlammStreamWriter(parsed, columns)
        writer._delivery = _Delivery(parsed, columns, points)
        return writer

    def writer(self, schema: StructType, overwrite: bool) -> KlammBatchWriter:
        parsed, columns, points = self._parsed(schema)
        writer = KlammBatchWriter(parsed, columns)
        writer._delivery = _Delivery(parsed, columns, points)
        return writer

    def _parsed(self, schema: StructType) -> tuple[SinkOptions, SinkColumns, Points]:
        options: dict[str, Any] = {key.lower(): value for key, value in self.options.items()}
        points = Points(Path(options.pop(POINTS_OPTION, None) or Path(options["checkpointlocation"]).parent))
        parsed = SinkOptions.parse(options)
        return parsed, SinkColumns.of(schema, parsed.topic), points


class StoppingSinkUnderKlammsName(StoppingSink):
    """The same as `format("klamm")`, for `klamm.spark.write_topic`."""

    @classmethod
    def name(cls) -> str:
        return "klamm"
