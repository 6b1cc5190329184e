"""The log cleaner of a data directory: picks the dirtiest log and cleans it step by step.

A cleaning is a generator. Its own code is short and runs on the thread of the logs, the broker's event loop. The steps
that it yields are slow and may run on any thread, one after the other; their results or exceptions are sent back into
the generator. Appends and fetches continue meanwhile, and a segment is replaced between two of them. `run_here` runs
everything on one thread.

Source: `storage/internals/log/LogCleaner.java`, `LogCleanerManager.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.core.log.compaction import CleaningPlan
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import Millis, Offset, TopicPartition
from klamm.storage.cleaner.checkpoint import CleanerCheckpoint
from klamm.storage.cleaner.cleaning import Cleaning, Steps, TableSettings, clean_log
from klamm.storage.cleaner.passes import CleaningAborted, PassSettings
from klamm.storage.cleaner.source import UncleanableSegment
from klamm.storage.cleaner.throttle import Throttle

if TYPE_CHECKING:
    from klamm.config.broker_config import BrokerConfig
    from klamm.storage.log.log import Log

__all__ = ["CleanerState", "LogCleaner", "run_here"]

_logger = logging.getLogger(__name__)

_SMALLEST_BUFFER_BYTES: Final = 4096


class CleanerState(NamedTuple):
    """The cleaner's state for monitoring: the time of the last check of the logs, the highest dirty ratio at that time,
    and the number of logs that are skipped because they hold something that can't be cleaned."""

    looked_ms: Millis | None
    dirtiest_ratio: float
    uncleanable: int


class LogCleaner:
    """Cleans the logs of one data directory. All methods must run on the thread of the logs.

    `config` supplies the `log.cleaner.*` settings. Several logs may be cleaned at the same time.
    """

    def __init__(self, logs: Mapping[TopicPartition, Log], checkpoint: CleanerCheckpoint, config: BrokerConfig) -> None:
        self._logs = logs
        self._checkpoint = checkpoint
        self._uncleanable: dict[TopicPartition, Log] = {}
        self._under_way: dict[TopicPartition, Event] = {}
        self._throttle = Throttle()
        self._looked_ms: Millis | None = None
        self._dirtiest_ratio = 0.0
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Applies a new configuration. Cleanings in progress keep their buffers."""
        threads = config.log_cleaner_threads
        self._throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        self._buffer_bytes = max(_SMALLEST_BUFFER_BYTES, config.log_cleaner_io_buffer_size // threads // 2)
        self._table = TableSettings(
            config.log_cleaner_dedupe_buffer_size // threads, config.log_cleaner_io_buffer_load_factor
        )

    # -- which log -----------------------------------------------------------------------------------------------------

    def look(self, now_ms: Millis) -> Iterator[Cleaning | None]:
        """Checks one log per step, and yields the dirtiest log so far that is due for cleaning.

        A log that is not compacted is a step too, since there may be tens of thousands of them. As in Kafka, the
        cleaner also applies retention to the compacted logs; that happens in the same step.
        """
        best: Cleaning | None = None
        dirtiest_ratio = 0.0
        self._looked_ms = now_ms
        for topic_partition in list(self._logs):
            yield best
            log = self._logs.get(topic_partition)
            if log is None or not log.config.compact or log.is_offline or log.compaction.is_under_way:
                continue
            plan = self._plan(log, now_ms)
            if plan is not None:
                dirtiest_ratio = max(dirtiest_ratio, plan.cleanable_ratio)
            if (
                plan is not None
                and plan.is_due(log.config.min_cleanable_dirty_ratio)
                and (best is None or plan.cleanable_ratio > best.plan.cleanable_ratio)
            ):
                best = Cleaning(log, plan)
        yield best
        self._dirtiest_ratio = dirtiest_ratio
        for topic_partition in [each for each, log in self._uncleanable.items() if self._logs.get(each) is not log]:
            del self._uncleanable[topic_partition]

    def _plan(self, log: Log, now_ms: Millis) -> CleaningPlan | None:
        if self._uncleanable.get(log.topic_partition) is log:
            return None
        try:
            log.delete_old_segments(now_ms)
            if log.segment_count < 2:
                return None  # the active segment is never cleaned
            plan = log.compaction.plan(self._checkpoint.get(log.topic_partition), now_ms)
        except KafkaError as error:
            _logger.error("the cleaning of %s can't be planned: %s", log, error)
            return None
        if plan.is_checkpoint_wrong and not log.config.delete:
            _logger.warning(
                "the cleaning of %s restarts at offset %d: the last one ended outside of the log",
                log,
                plan.first_dirty_offset,
            )
        return plan

    def state(self) -> CleanerState:
        """Returns the cleaner's state."""
        return CleanerState(self._looked_ms, self._dirtiest_ratio, len(self._uncleanable))

    def abort(self, topic_partition: TopicPartition) -> None:
        """Aborts the cleaning of that log if one is in progress. Segments that were already swapped in stay."""
        stopped = self._under_way.get(topic_partition)
        if stopped is not None:
            stopped.set()

    def abort_all(self) -> None:
        """Aborts all cleanings in progress."""
        for stopped in self._under_way.values():
            stopped.set()

    # -- one log -------------------------------------------------------------------------------------------------------

    def clean(self, cleaning: Cleaning, clock: Callable[[], Millis]) -> Steps:
        """Cleans a log and yields its slow steps (see the module). It never raises: errors are logged, and no record is
        lost.

        As in Kafka, a log that holds something that can't be cleaned is skipped until the next start.
        """
        log = cleaning.log
        topic_partition = log.topic_partition
        if log.compaction.is_under_way or self._logs.get(topic_partition) is not log:
            return False  # another cleaner was faster, or the log was deleted
        # The log was chosen some steps ago, and may have been truncated since: fewer of its records are committed then.
        try:
            plan = log.compaction.plan(self._checkpoint.get(topic_partition), clock())
        except KafkaError:
            return False  # the next look reports it
        if not plan.is_due(log.config.min_cleanable_dirty_ratio):
            return False
        stopped = self._under_way[topic_partition] = Event()
        log.compaction.is_under_way = True
        settings = PassSettings(self._buffer_bytes, self._throttle, stopped)
        note = partial(self._note, topic_partition, stopped)
        try:
            return (yield from clean_log(Cleaning(log, plan), self._table, settings, note, clock))
        except CleaningAborted:
            _logger.info("the cleaning of %s was aborted", log)
        except UncleanableSegment as error:
            self._uncleanable[topic_partition] = log
            _logger.error("%s is not cleaned any more: %s", log, error)
        except (KafkaError, OSError) as error:
            if not log.is_offline:
                _logger.error("%s can't be cleaned now: %s", log, error)
        finally:
            log.compaction.is_under_way = False
            if self._under_way.get(topic_partition) is stopped:  # not of another log with the same name
                del self._under_way[topic_partition]
        return False

    def _note(self, topic_partition: TopicPartition, stopped: Event, offset: Offset) -> None:
        self._checkpoint.set(topic_partition, offset, self._logs, stopped)


def run_here(steps: Steps) -> bool:
    """Runs a cleaning to its end on this thread and returns its result."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = step()
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as stop:
        return bool(stop.value)
