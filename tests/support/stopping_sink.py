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
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from pyspark.sql.types import StructType
from tests.support.patience import Limit

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
from klamm.spark.sink.staging import TaskAttempt, TaskStage
from klamm.spark.sink.stream_writer import KlammStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

__all__ = [
    "ABORT_POINTS",
    "HALF_STAGED",
    "PLANNING_POINTS",
    "POINTS",
    "POINTS_OPTION",
    "Points",
    "StoppingSink",
    "StoppingSinkUnderKlammsName",
]

HALF_STAGED: Final = "task half staged"
"""A part of a record batch is in the file of a task. Only tasks that stage files reach this point."""
POINTS = (
    "task begun",
    HALF_STAGED,
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
ABORT_POINTS = (
    "abort begun",
    "abort glanced",
    "abort initialized",
    "abort marker read",
    "abort removed a file",
    "abort ended",
)
"""The points of `abort`. The second one follows the first read of the marker, before InitProducerId; the fourth one
follows the read after it."""
PLANNING_POINTS = ("next begun", "planned")
"""The points of `stopping_files.StoppingFiles`: Spark's commit log has micro-batch N-1, and N is not planned; Spark's
offset log has N, and no task of N has begun."""
POINTS_OPTION = "points"
# The wrapper of a file stops within a record batch, and not within the prefix of the batch.
_LEAST_BATCH_BYTES: Final = 60


class Points:
    """The plans of a test, in a folder that all processes see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dead, self._paused = folder / "dead", folder / "paused"
        self._file_limit = folder / "file-limit"
        self._log, self._attempts = folder / "sink.log", folder / "attempts"

    def stop_at(self, point: str, batch_id: int) -> None:
        """Plans the end of the first process that reaches this point, and with it of the driver."""
        self._add("stop", point, batch_id)

    def stop_once_at(self, point: str, batch_id: int) -> None:
        """Plans the end of the first process that reaches this point. Spark lives, and others do as usual."""
        self._add("stop once", point, batch_id)

    def kill_jvm_once_at(self, point: str, batch_id: int) -> None:
        """Plans a SIGKILL of the JVM that has started the first process that reaches this point: that of the driver or
        of an executor."""
        self._add("kill once", point, batch_id)

    def raise_once_at(self, point: str, batch_id: int) -> None:
        """Plans an error in the first process that reaches this point."""
        self._add("raise once", point, batch_id)

    def raise_at(self, point: str, batch_id: int) -> None:
        """Plans an error in each process that reaches this point."""
        self._add("raise", point, batch_id)

    def pause_at(self, point: str, batch_id: int) -> None:
        """Plans that the first process that reaches this point waits there until `revive`."""
        self._add("pause", point, batch_id)

    def _add(self, what: str, point: str, batch_id: int) -> None:
        assert point in {*POINTS, *ABORT_POINTS, *PLANNING_POINTS}
        number = len(self._plans())
        (self._folder / f"plan-{number}").write_text(json.dumps([what, point, batch_id]))

    def _plans(self) -> list[Path]:
        return sorted(self._folder.glob("plan-*"))

    def limit_files(self, size_bytes: int) -> None:
        """Lets writes beyond this size of a staged file fail, as on a full disk, until `revive`."""
        self._file_limit.write_text(str(size_bytes))

    @property
    def file_limit_bytes(self) -> int | None:
        """The size of `limit_files`."""
        return int(self._file_limit.read_text()) if self._file_limit.exists() else None

    @property
    def was_reached(self) -> bool:
        """Whether a process has ended or waits at the point; with several plans of `…_once_at`, whether each of them
        was executed."""
        return self._dead.exists() or self._paused.exists() or not self._plans()

    @property
    def has_stopped(self) -> bool:
        """Whether a process has ended at the point of `stop_at`."""
        return self._dead.exists()

    def wait_for_pause(self) -> None:
        """Waits until a process has reached the point of `pause_at`."""
        limit = Limit(60)
        while not self._paused.exists():
            assert not limit.is_over, "no process has come to the point"
            time.sleep(0.01)

    def revive(self) -> None:
        """Lets the sink work again."""
        for file in (*self._plans(), self._dead, self._paused, self._file_limit):
            file.unlink(missing_ok=True)

    def reach(self, point: str, batch_id: int) -> None:
        """Ends or pauses this process, or raises `RuntimeError`, if that is planned. Ends the process if the driver
        counts as dead."""
        if self._dead.exists():
            os._exit(9)
        for plan in self._plans():
            # Another process may have executed the plan meanwhile.
            with contextlib.suppress(FileNotFoundError):
                what, *where = json.loads(plan.read_text())
                if where == [point, batch_id]:
                    self._execute(plan, what, point)

    def _execute(self, plan: Path, what: str, point: str) -> None:
        if what == "pause":
            self._pause(plan)
            return
        if what == "stop":
            self._dead.write_text("")
        elif what.endswith("once"):
            # One process can remove the file; the others continue.
            plan.unlink()
        if what.startswith("raise"):
            raise RuntimeError(f"planned at the point {point!r}")
        if what == "kill once":
            _kill_jvm_above()
        os._exit(9)

    def _pause(self, plan: Path) -> None:
        with contextlib.suppress(FileExistsError), self._paused.open("x"):
            while plan.exists():
                time.sleep(0.01)

    def record_log(self) -> None:
        """Appends what the sink logs in this process to the text of `log`."""
        logging.getLogger("klamm.spark.sink").addHandler(logging.FileHandler(self._log))

    def log(self) -> str:
        """What the sink has logged in its aborts."""
        return self._log.read_text() if self._log.exists() else ""

    def record_attempt(self, attempt: TaskAttempt) -> None:
        """Adds an attempt of a task to those of `attempts`."""
        with self._attempts.open("a") as file:
            file.write(f"{attempt.batch_id} {attempt.partition}\n")

    def attempts(self, batch_id: int) -> list[int]:
        """Returns how many attempts each task of a micro-batch had, the task with the most attempts first."""
        lines = self._attempts.read_text().splitlines()
        return sorted(Counter(line for line in lines if line.startswith(f"{batch_id} ")).values(), reverse=True)


def _kill_jvm_above() -> None:
    """Kills the JVM among the processes above this one."""
    process_id = os.getppid()
    while process_id > 1:
        name, _, fields = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")
        if name.endswith("(java"):
            os.kill(process_id, signal.SIGKILL)
            return
        process_id = int(fields.split()[1])
    raise AssertionError("no JVM has started this process")


class _HalfWrittenFile:
    """A staged file that reaches a point within each write of a record batch, with half of the bytes on the disk."""

    def __init__(self, file: IO[bytes], points: Points, batch_id: int) -> None:
        self._file, self._points, self._batch_id = file, points, batch_id

    def write(self, data: bytes | memoryview) -> int:
        if len(data) < _LEAST_BATCH_BYTES:
            return self._file.write(data)
        half = len(data) // 2
        self._file.write(data[:half])
        self._file.flush()
        self._points.reach(HALF_STAGED, self._batch_id)
        self._file.write(data[half:])
        return len(data)

    def close(self) -> None:
        self._file.close()


class _Stage(TaskStage):
    def __init__(self, location: str, attempt: TaskAttempt, inline_bytes: int, points: Points) -> None:
        super().__init__(location, attempt, inline_bytes)
        self._points = points

    def create_file(self, name: str) -> IO[bytes]:
        file = super().create_file(name)
        return cast("IO[bytes]", _HalfWrittenFile(file, self._points, self._attempt.batch_id))


class _Transaction(MarkerTransaction):
    def __init__(
        self, config: ProducerConfig, batch: CheckpointBatch, marker_topic: str, points: Points, *, is_of_abort: bool
    ) -> None:
        super().__init__(config, batch, marker_topic)
        self._points = points
        self._is_of_abort = is_of_abort
        self._sent = 0

    def _reach(self, point: str) -> None:
        self._points.reach(f"abort {point}" if self._is_of_abort else point, self.batch.batch_id)

    def initialize(self) -> None:
        super().initialize()
        self._reach("initialized")

    def glance_at_marker(self) -> Marker | None:
        marker = super().glance_at_marker()
        self._reach("glanced")
        return marker

    def read_marker(self) -> Marker | None:
        marker = super().read_marker()
        self._reach("marker read")
        return marker

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
        self._aborts: int | None = None

    def stage(self, attempt: TaskAttempt, tables: Iterator[pa.RecordBatch]) -> StagedTask:
        self._points.record_attempt(attempt)
        self._points.reach("task begun", attempt.batch_id)
        with _limited_files(self._points.file_limit_bytes):
            staged = super().stage(attempt, tables)
        self._points.reach("task staged", attempt.batch_id)
        return staged

    def open_stage(self, attempt: TaskAttempt) -> TaskStage:
        return _Stage(self._staging, attempt, self._settings.inline_bytes, self._points)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        assert batch_id is not None
        self._points.reach("commit begun", batch_id)
        super().commit(messages, batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        assert batch_id is not None
        self._aborts = batch_id
        self._points.reach("abort begun", batch_id)
        self._points.record_log()
        super().abort(messages, batch_id)
        self._points.reach("abort ended", batch_id)

    def open_transaction(self, batch: CheckpointBatch) -> MarkerTransaction:
        return _Transaction(
            self._options.producer,
            batch,
            self._settings.marker_topic,
            self._points,
            is_of_abort=self._aborts is not None,
        )

    def clean(self, batch: CheckpointBatch) -> None:
        super().clean(batch)
        self._points.reach("cleaned", batch.batch_id)

    def discard(self, task: StagedTask) -> None:
        super().discard(task)
        assert self._aborts is not None
        self._points.reach("abort removed a file", self._aborts)


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
