"""The data directory of a broker: the folders of its partitions, and the files next to them.

Everything is called from one thread, the broker's event loop, except `open` and `close`, which may run on another
thread while nothing else uses the directory. Slow work (syncing rolled segments, writing checkpoints, removing files)
runs in order on the directory's background thread.

Source: `storage/internals/log/LogManager.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from klamm.config.broker_config import BrokerConfig
from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import ZERO_TOPIC_ID, Millis, Offset, TopicId, TopicPartition
from klamm.storage.atomic_file import FOLDER_MODE
from klamm.storage.checkpoints import read_topic_id, write_topic_id
from klamm.storage.cleaner.checkpoint import CleanerCheckpoint
from klamm.storage.cleaner.log_cleaner import LogCleaner
from klamm.storage.directory.directory_owner import DirectoryOwner
from klamm.storage.directory.log_opening import load_logs, offline
from klamm.storage.directory.noted_names import NotedNames
from klamm.storage.directory.noted_truncations import NotedTruncations
from klamm.storage.directory.offset_checkpoints import CheckpointContents, NotedOffsets, OffsetCheckpoints
from klamm.storage.file_removal import remove, remove_let_go
from klamm.storage.log.log import Log
from klamm.storage.log.log_services import LogServices, segment_settings
from klamm.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_directory_name,
    retired_directory_name,
)
from klamm.storage.recovery.loaded_log import LoadedLog, LoadRequest
from klamm.storage.segment.damage import LOSS_ADVICE
from klamm.storage.segment.file_pool import FilePool, default_open_files
from klamm.storage.segment.segment import Segment

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig

__all__ = ["LogDirectory"]

_logger = logging.getLogger(__name__)

_PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
_SYNC_THREADS: Final = 16
_LOGS_AT_ONCE: Final = 64
"""The number of logs that are closed together. It limits the descriptors."""


class LogDirectory:
    """A data directory and the logs in it.

    `config` supplies the number of recovery threads and `producer.id.expiration.ms`; `open_files` limits the
    descriptors of the logs.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], Millis],
        config: BrokerConfig | None = None,
        open_files: int | None = None,
        random: Random | None = None,
    ) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self._clock = clock
        self._recovery_threads = config.num_recovery_threads_per_data_dir if config is not None else 1
        self.owner = DirectoryOwner(path)
        self._is_loaded = False  # a start that was refused has only locked it, and must leave it as it was
        self._checkpoints = OffsetCheckpoints(path)
        self._noted = NotedOffsets({}, {}, {})
        self._cleaner_checkpoint = CleanerCheckpoint(path)
        self.cleaner = LogCleaner(self.logs, self._cleaner_checkpoint, config if config is not None else BrokerConfig())
        self._removals: list[tuple[Millis, Path]] = []
        """Folders, and the times at which they are due for removal."""
        self._kept_back: deque[Path] = deque()
        """Files that could not be removed yet."""
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="klamm-storage")
        self.names = NotedNames(path, self.logs, self._checkpoints, self._background.submit)
        self.truncations = NotedTruncations(
            self.logs, self._checkpoints, self.names, self.cleaner, self._cleaner_checkpoint, self._background.submit
        )
        self._services = LogServices(
            FilePool(open_files if open_files is not None else default_open_files()),
            producer_id_expiration_ms=(
                config.producer_id_expiration_ms if config is not None else _PRODUCER_ID_EXPIRATION_MS
            ),
            run_in_background=self._background.submit,
            before_truncation=self.truncations.note,
            disk_failed=self.owner.run.fail,
            random=random if random is not None else Random(),
        )

    # -- start and stop ------------------------------------------------------------------------------------------------

    def open(self, topic_config_of: Callable[[str], TopicConfig]) -> None:
        """Loads the partitions, and recovers them after an unclean shutdown.

        A damaged partition is loaded as offline. Raises the errors of `DirectoryOwner.lock`.
        """
        self.owner.lock()
        started = time.perf_counter()
        had_clean_shutdown = self.owner.take_clean_shutdown_mark()
        now_ms = self._clock()
        self._noted = noted = self._checkpoints.read(has_page_cache=bool(self.owner.run.kept_runs(None)))
        self._cleaner_checkpoint.read()
        configs: dict[str, TopicConfig] = {}
        requests = []
        for folder in sorted(self.path.iterdir()):
            if folder.name.endswith(DELETED_DIRECTORY_SUFFIX):
                self._removals.append((now_ms, folder))
                continue
            topic_partition = parse_directory_name(folder.name) if folder.is_dir() else None
            if topic_partition is None:
                continue
            topic = topic_partition.topic
            if topic not in configs:
                configs[topic] = topic_config_of(topic)
            requests.append(self._request(folder, topic_partition, configs[topic], now_ms, had_clean_shutdown))
        for request, loaded in zip(
            requests, load_logs(requests, self.path, threads=self._recovery_threads), strict=True
        ):
            topic_partition = request.topic_partition
            log = Log(
                topic_partition,
                read_topic_id(request.directory),
                configs[topic_partition.topic],
                self._services,
                loaded,
                now_ms=now_ms,
                # A killed process may have left unsynced names; without a sync the files below them could be lost.
                has_new_names=not had_clean_shutdown,
            )
            self.logs[topic_partition] = log
        self._restore_high_watermarks(noted.high_watermarks)
        self._is_loaded = True
        _logger.info(
            "opened %d partitions in %s after a %s stop in %.3f s",
            len(self.logs),
            self.path,
            "clean" if had_clean_shutdown else "first start or an unclean",
            time.perf_counter() - started,
        )

    def _restore_high_watermarks(self, noted: Mapping[TopicPartition, Offset]) -> None:
        """Sets the high watermarks that an earlier run wrote; after a power failure, only up to the recovery points.

        A power failure may undo a truncation that no sync has followed. Above its recovery point, the log then has the
        truncated records in the place of committed ones. Kafka believes the checkpoint (`Partition.createLog`).
        """
        if any(log.log_end_offset < noted.get(where, 0) for where, log in self.logs.items()):
            self.owner.run.distrust()
        has_page_cache = bool(self.owner.run.kept_runs(None))
        for where, log in self.logs.items():
            offset = noted.get(where, Offset(0))
            log.advance_high_watermark(offset if has_page_cache else min(offset, log.recovery_point))

    def _request(
        self,
        folder: Path,
        topic_partition: TopicPartition,
        config: TopicConfig,
        now_ms: Millis,
        had_clean_shutdown: bool,
    ) -> LoadRequest:
        return LoadRequest(
            folder,
            topic_partition,
            segment_settings(config, self._services),
            self._noted.recovery_points.get(topic_partition, Offset(0)),
            self._noted.log_start_offsets.get(topic_partition),
            had_clean_shutdown,
            config.compact or self._cleaner_checkpoint.get(topic_partition) is not None,
            self._services.producer_id_expiration_ms,
            now_ms,
            self.owner.run.distrust,
        )

    def close(self, clean: bool = True) -> None:
        """Closes every log, writes the checkpoints and, on success, the clean shutdown mark; releases the lock.

        With `clean=False` files are only closed, as if the process had ended. A second call does nothing.
        """
        if not self.owner.is_locked:
            self._background.shutdown()
            return
        self._background.shutdown(wait=True)
        try:
            if clean and self._is_loaded:
                is_clean = self._close_logs()
                self._checkpoints.write(self._checkpoints.gather(self.logs))
                if is_clean:
                    self.owner.write_clean_shutdown_mark()
            else:
                for log in self.logs.values():
                    log.leave(log.directory, "is closed")
        except OSError as error:
            reason = error.strerror or error
            _logger.error("%s was not closed in order, the next start will look through it: %s", self.path, reason)
        finally:
            self.logs.clear()
            self.owner.unlock()

    def _close_logs(self) -> bool:
        """Closes all logs, and returns whether all were closed cleanly.

        Several logs are synced at once, because the disk can combine the syncs.
        """
        logs = list(self.logs.values())
        is_clean = True
        with ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="klamm-close") as threads:
            for start in range(0, len(logs), _LOGS_AT_ONCE):
                some = logs[start : start + _LOGS_AT_ONCE]
                flushes = [flush for log in some if (flush := log.begin_close()) is not None]
                wait([threads.submit(flush.run) for flush in flushes])
                is_clean = all([log.end_close() for log in some]) and is_clean  # noqa: C419 - each must be closed
        return is_clean

    def find_lost(
        self, partitions: Mapping[TopicPartition, TopicId], topic_config_of: Callable[[str], TopicConfig]
    ) -> list[TopicPartition]:
        """Adds an offline log for each partition of the metadata whose folder is gone although it had records
        (`NotedOffsets.proven_end`).

        Must be called after `open` and before anything else, because the next checkpoint drops entries of partitions
        without a log. Returns the lost partitions.
        """
        lost = []
        now_ms = self._clock()
        for topic_partition, topic_id in partitions.items():
            end = self._noted.proven_end(topic_partition)
            if topic_partition in self.logs or not end:
                continue
            folder = self.path / str(topic_partition)
            config = topic_config_of(topic_partition.topic)
            request = self._request(folder, topic_partition, config, now_ms, had_clean_shutdown=False)
            request = request._replace(recovery_point=end)  # It proves the loss to every later start, too.
            loaded = offline(
                request, f"{folder} is gone, but records up to offset {end} were on the disk. {LOSS_ADVICE}"
            )
            self.logs[topic_partition] = Log(topic_partition, topic_id, config, self._services, loaded, now_ms=now_ms)
            lost.append(topic_partition)
        return lost

    # -- partitions ----------------------------------------------------------------------------------------------------

    def on_offline(self, observer: Callable[[TopicPartition], object]) -> None:
        """Sets the observer for logs that go offline. It is called on the thread that detects the failure."""
        self._services.went_offline = observer

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """Returns the log of a partition, None if it has no folder here."""
        return self.logs.get(topic_partition)

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig) -> Log:
        """Creates an empty log.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if the folder can't be created.
        """
        assert topic_partition not in self.logs, f"{topic_partition} exists"
        now_ms = self._clock()
        folder = self.path / str(topic_partition)
        is_made = False
        try:
            if self._checkpoints.may_name(topic_partition):
                # The name belonged to another topic: after a crash the new log would get its recovery point and start
                # offset.
                self._checkpoints.write(self._checkpoints.gather(self.logs))
            self._cleaner_checkpoint.forget(topic_partition)
            folder.mkdir(mode=FOLDER_MODE)
            is_made = True
            if topic_id != ZERO_TOPIC_ID:
                write_topic_id(folder, topic_id)
            segment = Segment.create(folder, Offset(0), segment_settings(config, self._services), created_ms=now_ms)
        except OSError as error:
            if is_made:  # otherwise it may have records: a rename has failed, for example
                shutil.rmtree(folder, ignore_errors=True)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the folder of {topic_partition} can't be made: {error}"
            ) from error
        loaded = LoadedLog(
            folder,
            [segment],
            log_start_offset=Offset(0),
            log_end_offset=Offset(0),
            recovery_point=Offset(0),
            indexed_offset=Offset(0),
            leader_epochs=LeaderEpochs(),
            producers=ProducerState(self._services.producer_id_expiration_ms),
            snapshot_offset=Offset(0),
        )
        log = Log(topic_partition, topic_id, config, self._services, loaded, now_ms=now_ms, has_new_names=True)
        self.logs[topic_partition] = log
        return log

    def replace(self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig) -> Log:
        """Renames the folder of a log that was gone or damaged at the start to `….-stray`, and creates an empty log.

        Only for a partition whose records another broker has. Raises as `create`.
        """
        folder = self._retire(self.logs.pop(topic_partition), STRAY_DIRECTORY_SUFFIX)
        if folder is not None:
            _logger.warning("the damaged files of %s are in %s now, and nothing uses them", topic_partition, folder)
        return self.create(topic_partition, topic_id, config)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Takes a log out of use at once. Its files are removed after `file.delete.delay.ms`."""
        log = self.logs.pop(topic_partition, None)
        if log is not None:
            self.names.deleted(topic_partition)
            self.cleaner.abort(topic_partition)
            folder = self._retire(log, DELETED_DIRECTORY_SUFFIX)
            if folder is not None:
                self._removals.append((Millis(self._clock() + log.config.file_delete_delay_ms), folder))

    def set_strays_aside(self, assigned: Mapping[TopicPartition, TopicId]) -> list[Path]:
        """Renames the folders of partitions that are not in `assigned`, or have another topic id there, to `….-stray`.

        While this broker was not running, the topic was deleted, or the replica moved to another broker. As in Kafka
        the records are kept, but not under a name that may be needed again. Returns the new paths. Raises OSError.

        Source: `LogManager.isStrayReplica` of Apache Kafka 4.3.
        """
        strays = []
        for topic_partition, log in list(self.logs.items()):
            topic_id = assigned.get(topic_partition)
            if topic_id is None or log.topic_id not in (topic_id, ZERO_TOPIC_ID):
                strays.append(self.logs.pop(topic_partition))
        if strays:
            # The checkpoints must drop the strays first: otherwise a new topic of the same name would seem to miss
            # records.
            self.names.write_durably(self._checkpoints.gather(self.logs))
        aside = []
        for log in strays:
            folder = self._retire(log, STRAY_DIRECTORY_SUFFIX)
            if folder is not None:
                _logger.warning(
                    "%s is not assigned to this broker, or its topic does not exist any more: its folder was renamed "
                    "to %s, and can be deleted",
                    log,
                    folder,
                )
                aside.append(folder)
        return aside

    def _retire(self, log: Log, suffix: str) -> Path | None:
        """Renames a log's folder and takes the log out of use. Returns the new path.

        None if the folder can't be renamed: the log is out of use anyway, and the next start finds the folder again.
        """
        target = self.path / retired_directory_name(log.topic_partition, suffix)
        # Before the rename: a flush on another thread that misses the folder must not count as a failure of the disk.
        log.leave(log.directory, "is deleted")
        try:
            log.directory.rename(target)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # the folder was already gone
                _logger.error("the folder of %s can't be renamed: %s", log, error)
            return None
        log.leave(target, "is deleted")
        return target

    # -- again and again -----------------------------------------------------------------------------------------------

    def housekeep(self, now_ms: Millis) -> None:
        """Applies retention, runs due flushes, expires producers, and removes files that are due."""
        for _ in self.housekeep_in_steps(now_ms):
            pass

    def housekeep_in_steps(self, now_ms: Millis) -> Iterator[None]:
        """Does the same, one log per step. Logs may come and go between two steps."""
        folders = [path for due_ms, path in self._removals if due_ms <= now_ms]
        self._removals = [removal for removal in self._removals if removal[0] > now_ms]
        files = [self._kept_back.popleft() for _ in range(len(self._kept_back))]
        for log in list(self.logs.values()):
            if log.is_offline or self.logs.get(log.topic_partition) is not log:
                continue
            try:
                if not log.compaction.is_under_way:
                    log.delete_old_segments(now_ms)
                log.durability.flush_if_due(now_ms)
            except KafkaError as error:
                _logger.error("housekeeping of %s failed, it is tried again: %s", log, error)
            log.producers.expire(now_ms)
            if log not in self._checkpoints.announced:  # they may name an earlier log start offset
                files += log.retention.take_removals(now_ms)
            yield
        if folders:
            self._background.submit(remove, folders)
        if files:
            contents = yield from self._checkpoints.gather_in_steps(self.logs)
            if contents is None:
                self._kept_back += files  # another checkpoint has begun: removed next time
            else:
                self._background.submit(self._remove_files, files, contents)

    def _remove_files(self, paths: Sequence[Path], contents: CheckpointContents) -> None:
        self._kept_back += remove_let_go(paths, lambda: self.names.write_durably(contents))

    def checkpoint(self) -> Future[None]:
        """Writes the checkpoints of recovery points, log start offsets and high watermarks. The future is done after
        the write.

        A checkpoint that can't be written keeps its old content, which makes the next recovery longer.
        """
        return self._background.submit(self._write_checkpoints_or_log, self._checkpoints.gather(self.logs))

    def checkpoint_in_steps(self) -> Generator[None, None, None]:
        """Does the same, some logs per step and without waiting for the disk. Logs may come and go between two steps.

        If another checkpoint begins meanwhile, only that one is written.
        """
        contents = yield from self._checkpoints.gather_in_steps(self.logs)
        if contents is not None:
            self._background.submit(self._write_checkpoints_or_log, contents)

    def wait_for_background(self) -> None:
        """Waits until all work that was given to the background thread is done."""
        wait([self._background.submit(bool)])

    def _write_checkpoints_or_log(self, contents: CheckpointContents) -> None:
        try:
            self._checkpoints.write(contents)
        except OSError as error:
            _logger.error("the checkpoints of %s can't be written: %s", self.path, error)
