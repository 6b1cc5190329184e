"""Where the finished batches of tasks wait for the commit of their micro-batch.

Files are named `<query id>/<batch id>/<run id>/<task>-<attempt>-<random>` in the staging folder, so that attempts never
share a file, and the commit finds the files of lost attempts.
"""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Iterator
from typing import IO, Final, NamedTuple

from klamm.spark.folders import folder_at, without_credentials
from klamm.spark.sink.errors import StagedFileMissing, StagingDamaged, WriteFailed
from klamm.spark.sink.staged_batches import StagedBatch, StagedTask, batch_prefix, read_batches

__all__ = ["Staging", "TaskAttempt", "TaskStage"]

_MOST_INLINE_BYTES: Final = 64 << 20
"""The limit for the message of the first task."""


class TaskAttempt(NamedTuple):
    """An attempt of a task of a micro-batch."""

    query_id: str
    batch_id: int
    run_id: str
    partition: int
    attempt: int

    @property
    def most_inline_bytes(self) -> int:
        """The largest number of bytes that this task may pass in its message to the driver.

        The driver holds the messages of all tasks in memory, and Spark ends a micro-batch whose messages exceed
        `spark.driver.maxResultSize` (1 GiB by default). A task knows its own number, but not the number of tasks. So
        the limit falls with the number: the messages of 100,000 tasks have less than 800 MiB together.
        """
        return _MOST_INLINE_BYTES // (self.partition + 1)

    def new_file(self) -> str:
        """Returns a name that no other attempt has."""
        return (
            f"{self.query_id}/{self.batch_id}/{self.run_id or 'unknown-run'}/"
            f"{self.partition}-{self.attempt}-{uuid.uuid4().hex[:12]}"
        )


class TaskStage:
    """The batches of one task. They are held in memory up to a limit, and in a file above it."""

    def __init__(self, location: str, attempt: TaskAttempt, inline_bytes: int) -> None:
        """Creates no file yet. The limit is `inline_bytes`, or lower for a task with a high number."""
        self._location = location
        self._attempt = attempt
        self._inline_bytes = min(inline_bytes, attempt.most_inline_bytes)
        self._memory = io.BytesIO()
        self._name: str | None = None
        self._file: IO[bytes] | None = None
        self._count = 0

    def add(self, topic: str, partition: int, batch: bytes | bytearray | memoryview) -> None:
        """Adds a finished batch. Raises `OSError`."""
        self._count += 1
        prefix = batch_prefix(topic, partition, len(batch))
        if self._file is None and self._memory.tell() + len(prefix) + len(batch) > self._inline_bytes:
            self._name = self._attempt.new_file()
            self._file = self.create_file(self._name)
            self._file.write(self._memory.getbuffer())
            self._memory = io.BytesIO()
        target = self._memory if self._file is None else self._file
        target.write(prefix)
        target.write(batch)

    def create_file(self, name: str) -> IO[bytes]:
        """Creates a file in the staging folder. Raises `OSError`."""
        return folder_at(self._location).open_to_write(name)

    def finish(self) -> StagedTask:
        """Returns the message for the driver, when the file is complete. Raises `OSError`."""
        if self._file is not None:
            self._file.close()
        query_id, batch_id, run_id = self._attempt[:3]
        return StagedTask(query_id, batch_id, run_id, self._count, self._memory.getvalue(), self._name)

    def discard(self) -> None:
        """Removes the file, if there is one. The commit of a later micro-batch removes it if that fails."""
        if self._file is not None and self._name is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            with contextlib.suppress(OSError):
                folder_at(self._location).remove_file(self._name)


class Staging:
    """The staging folder, on the driver."""

    def __init__(self, location: str) -> None:
        """Takes a result of `absolute_location`."""
        self._location = location
        self._place = without_credentials(location)

    def batches(self, task: StagedTask) -> Iterator[StagedBatch]:
        """Yields the batches of a task. Raises `WriteFailed` if they can't be read, and its subclass
        `StagedFileMissing` if there is no file."""
        try:
            with self._open(task) as file:
                yield from read_batches(file, task.batches_count)
        except FileNotFoundError:
            raise StagedFileMissing(
                f"the file {task.file} of a task is not in the staging folder {self._place}: the driver and all "
                "executors must see the same folder. Set klamm.sink.staging to a folder on a shared file system"
            ) from None
        except StagingDamaged as error:
            raise WriteFailed(
                f"the staged batches of a task ({task.file or 'in its message'}) are damaged: {error}"
            ) from None
        except OSError as error:
            raise WriteFailed(f"the staging folder {self._place} can't be read: {error}") from error

    def remove(self, task: StagedTask) -> None:
        """Removes the file of a task. Raises `OSError`."""
        if task.file is not None:
            folder_at(self._location).remove_file(task.file)

    def remove_up_to(self, query_id: str, batch_id: int) -> None:
        """Removes all files of the query's micro-batches up to this one, those of lost attempts too. Raises
        `OSError`."""
        folder = folder_at(self._location)
        for name in folder.names(query_id):
            if name.isdecimal() and int(name) <= batch_id:
                folder.remove_folder(f"{query_id}/{name}")

    def _open(self, task: StagedTask) -> IO[bytes]:
        return io.BytesIO(task.inline) if task.file is None else folder_at(self._location).open_to_read(task.file)
