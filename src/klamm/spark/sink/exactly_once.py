"""The delivery `exactly-once`: tasks stage finished record batches, and the driver writes all of a micro-batch in one
transaction, which also moves the query's marker (ADR 35).

The driver's process that commits a micro-batch may be new each time, so this module imports pyarrow and numpy only in
tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from klamm.errors import KlammError
from klamm.spark.folders import absolute_location, without_credentials
from klamm.spark.sink.checkpoint_batch import CheckpointBatch
from klamm.spark.sink.checkpoint_files import read_batch
from klamm.spark.sink.commit_errors import explained, overtaken
from klamm.spark.sink.errors import StagedFileMissing, WriteFailed, require_all_messages
from klamm.spark.sink.marker_errors import CheckpointUnreadable, MarkerConflict, MarkerDamaged, MarkerMissing
from klamm.spark.sink.marker_transaction import MarkerTransaction
from klamm.spark.sink.replay_decision import Replay, has_landed, is_of_another_run
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.staged_batches import StagedBatch, StagedTask
from klamm.spark.sink.staging import Staging, TaskAttempt, TaskStage
from klamm.spark.source.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ExactlyOnce"]

_logger = logging.getLogger(__name__)

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"


class ExactlyOnce:
    """Writes each micro-batch completely or not at all, and only once, also if it is repeated with the same
    checkpoint."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        """Raises `OptionError` without a checkpoint. Runs on the driver, where relative paths begin."""
        settings = options.exactly_once
        assert settings is not None
        if settings.checkpoint is None or settings.staging_folder is None:
            raise OptionError(
                "klamm.sink.semantics=exactly-once needs the option checkpointLocation, which identifies the query and "
                "its micro-batches. A checkpoint from spark.sql.streaming.checkpointLocation is not told to the sink: "
                'set .option("checkpointLocation", …) in the query'
            )
        self._options = options
        self._columns = columns
        self._settings = settings
        self._checkpoint = absolute_location(settings.checkpoint)
        self._staging = absolute_location(settings.staging_folder)

    # In a task.

    def write(self, tables: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stages the rows of one task; writes no record to a topic."""
        attempt = self.attempt()
        try:
            return self.stage(attempt, tables)
        except (KlammError, OSError) as error:
            place = f"the staging folder {without_credentials(self._staging)}: " if isinstance(error, OSError) else ""
            raise WriteFailed(
                f"micro-batch {attempt.batch_id} of the query {attempt.query_id}: {place}{error}"
            ) from error

    def attempt(self) -> TaskAttempt:
        """Returns which attempt of which task this process runs."""
        context = TaskContext.get()
        assert context is not None
        query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if self._options.micro_batch is not None:
            query_id, batch_id = self._options.micro_batch.query_id, str(self._options.micro_batch.batch_id)
        if query_id is None or batch_id is None:
            raise WriteFailed("Spark does not tell the task its query and micro-batch (a local property is missing)")
        run_id = context.getLocalProperty(_RUN_ID) or ""
        return TaskAttempt(query_id, int(batch_id), run_id, context.partitionId(), context.attemptNumber())

    def stage(self, attempt: TaskAttempt, tables: Iterator[pa.RecordBatch]) -> StagedTask:
        """Builds the record batches of a task and stages them."""
        from klamm.spark.sink.larger_tables import joined_tables
        from klamm.spark.sink.partition_counts import count_partitions
        from klamm.spark.sink.row_batches import RowBatches
        from klamm.spark.sink.shared_producers import borrow_producer
        from klamm.spark.sink.topic_rows import divide_by_topic

        options = self._options
        batches = RowBatches(options)
        stage = self.open_stage(attempt)
        try:
            # The producer only counts partitions here.
            with borrow_producer(options.producer) as borrowed:
                for table in joined_tables(tables):
                    for rows in divide_by_topic(table, self._columns, options.topic):
                        for batch in batches.build(rows, count_partitions(borrowed, rows)):
                            stage.add(rows.topic, batch.partition, batch.data)
            return stage.finish()
        except BaseException:
            stage.discard()
            raise

    def open_stage(self, attempt: TaskAttempt) -> TaskStage:
        """Returns the place for the batches of a task; it has no file yet."""
        return TaskStage(self._staging, attempt, self._settings.inline_bytes)

    # On the driver.

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        """Writes the micro-batch and moves the marker, unless the marker says that the topics have the micro-batch.

        Raises `WriteFailed`, and the errors of `replay_decision.decide`.
        """
        tasks = [each for each in messages if isinstance(each, StagedTask)]
        batch = self.describe(tasks, batch_id)
        require_all_messages(messages, batch_id)
        assert len(tasks) == len(messages)
        for task in tasks:
            _check_origin(task, batch)
        transaction = self.open_transaction(batch)
        try:
            self.send_once(transaction, tasks)
        except (MarkerConflict, MarkerDamaged, MarkerMissing):
            raise
        except StagedFileMissing as error:
            # A run that writes the micro-batch removes the files of all runs.
            if _is_overtaken(transaction):
                raise overtaken(batch) from error
            raise explained(error, batch, self._options.producer, transaction.duration_s) from error
        except KlammError as error:
            raise explained(error, batch, self._options.producer, transaction.duration_s) from error
        finally:
            transaction.close()
        self.clean(batch)

    def describe(self, tasks: Sequence[StagedTask], batch_id: int | None) -> CheckpointBatch:
        """Identifies the micro-batch by its checkpoint. Raises `CheckpointUnreadable`."""
        assert batch_id is not None, "a batch write without a micro-batch is refused earlier"
        batch = read_batch(self._checkpoint, batch_id, tasks[0].run_id if tasks else "")
        expected = self._options.micro_batch
        if expected is not None and expected.query_id != batch.query_id:
            raise CheckpointUnreadable(
                f"the checkpoint {without_credentials(self._checkpoint)} belongs to the query {batch.query_id}, and "
                f"the micro-batch to the query {expected.query_id}: set the option checkpointLocation to the "
                "checkpoint of the query"
            )
        return batch

    def open_transaction(self, batch: CheckpointBatch) -> MarkerTransaction:
        """Returns the transaction for a micro-batch; nothing has been sent yet."""
        return MarkerTransaction(self._options.producer, batch, self._settings.marker_topic)

    def send_once(self, transaction: MarkerTransaction, tasks: Sequence[StagedTask]) -> None:
        """Executes the steps of the protocol, up to the end of the transaction."""
        transaction.initialize()
        decision = transaction.decide(transaction.read_marker(), self._settings.first_batch)
        if decision is Replay.DROP:
            batch = transaction.batch
            _logger.info(
                "micro-batch %s of the query %s is in its topics already: not sent again",
                batch.batch_id,
                batch.query_id,
            )
            return
        transaction.begin()
        for staged in self.staged_batches(tasks):
            transaction.send_batch(staged)
        transaction.flush()
        transaction.move_marker()
        transaction.end()

    def staged_batches(self, tasks: Sequence[StagedTask]) -> Iterator[StagedBatch]:
        """Yields the batches of all tasks, in the order of the tasks. Raises `WriteFailed`."""
        staging = Staging(self._staging)
        for task in tasks:
            yield from staging.batches(task)

    def clean(self, batch: CheckpointBatch) -> None:
        """Removes the staged files of the micro-batch and of all earlier ones. Logs a failure: the next commit tries
        again."""
        try:
            Staging(self._staging).remove_up_to(batch.query_id, batch.batch_id)
        except OSError as error:
            _logger.warning("the staging folder %s could not be cleaned: %s", without_credentials(self._staging), error)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        """Ends a transaction that hangs, logs whether the topics have the micro-batch, and removes the tasks' files.

        Does not fence other runs of the query in three cases: one of them has written the micro-batch meanwhile; a
        task has failed, so this run has no transaction; or there are no tasks. Never raises, because Spark would show
        the new error instead of the first one.
        """
        tasks = [each for each in messages if isinstance(each, StagedTask)]
        # Spark calls `commit` only with the messages of all tasks. Without tasks, a transaction that hangs has the
        # marker alone and holds up no reader, and this run, whose id is not known then, could not recognize itself.
        may_hang = len(tasks) == len(messages) > 0
        try:
            self._log_outcome(self.describe(tasks, batch_id), may_hang=may_hang)
        except Exception as error:
            _logger.warning(
                "micro-batch %s failed, and whether it is in its topics is not known: %s. The next start of the query "
                "finds out",
                batch_id,
                error,
            )
        for task in tasks:
            self.discard(task)

    def discard(self, task: StagedTask) -> None:
        """Removes the staged file of a task after a failure. Logs an error: the next commit removes the file."""
        try:
            Staging(self._staging).remove(task)
        except Exception as error:
            _logger.warning("the staged file %s could not be removed: %s", task.file, error)

    def _log_outcome(self, batch: CheckpointBatch, *, may_hang: bool) -> None:
        transaction = self.open_transaction(batch)
        try:
            outcome = _outcome(transaction, may_hang=may_hang)
        finally:
            transaction.close()
        _logger.warning("micro-batch %s of the query %s failed; %s", batch.batch_id, batch.query_id, outcome)


def _outcome(transaction: MarkerTransaction, *, may_hang: bool) -> str:
    """Ends a transaction that may hang. Returns what is known of the micro-batch."""
    batch = transaction.batch
    try:
        marker = transaction.glance_at_marker()
    except MarkerDamaged:
        # `read_marker` raises it again, when the transaction that hangs has ended.
        marker = None
    if is_of_another_run(batch, marker):
        return "another run of the query has written it, or a later micro-batch"
    if may_hang:
        transaction.initialize()
        marker = transaction.read_marker()
    elif not has_landed(batch, marker):
        return "this run has sent no records of it: the next start of the query repeats it"
    if has_landed(batch, marker):
        return "its topics have it: the next start of the query does not send it again"
    return "its topics have nothing of it: the next start of the query sends it"


def _is_overtaken(transaction: MarkerTransaction) -> bool:
    """Returns whether another run has written the micro-batch; False if that can't be found out."""
    # The other run may be within its next transaction, for which a stable read waits.
    reads = (transaction.glance_at_marker, transaction.read_marker)
    try:
        return any(is_of_another_run(transaction.batch, read()) for read in reads)
    except KlammError:
        return False


def _check_origin(task: StagedTask, batch: CheckpointBatch) -> None:
    if (task.query_id, task.batch_id) != (batch.query_id, batch.batch_id):
        raise WriteFailed(
            f"micro-batch {batch.batch_id} of the query {batch.query_id}: a task has staged rows of micro-batch "
            f"{task.batch_id} of the query {task.query_id}. The option checkpointLocation must be the checkpoint of "
            "the query that writes"
        )
