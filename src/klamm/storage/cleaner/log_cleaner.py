"""The log cleaner of a data directory: picks the dirtiest log, and cleans it step by step.

A cleaning is a generator. What it does itself belongs on the thread of the logs, the broker's loop, and is short; what
it yields is slow and may run on any thread, one step after the other; what that returns or raises goes back in. So
appends and fetches go on, and a segment is exchanged between two of them. `run_here` does it all on one thread.

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
    from klamm.storage.log import Log

__all__ = ["CleanerState", "LogCleaner", "run_here"]

logger = logging.getLogger(__name__)

_SMALLEST_BUFFER_BYTES: Final = 4096


class CleanerState(NamedTuple):
    """What monitoring wants to know: when logs were looked at last, the dirty share of the dirtiest then, and how many
    are left alone because they hold something that can't be cleaned."""

    looked_ms: Millis | None
    dirtiest_ratio: float
    uncleanable: int


class LogCleaner:
    """Cleans the logs of one data directory. All methods belong on the thread of the logs.

    `config` gives what `log.cleaner.*` says; several cleanings may be under way at once, of different logs.
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
        """Takes a new configuration; cleanings under way keep the buffers that they have."""
        threads = config.log_cleaner_threads
        self._throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        self._buffer_bytes = max(_SMALLEST_BUFFER_BYTES, config.log_cleaner_io_buffer_size // threads // 2)
        self._table = TableSettings(
            config.log_cleaner_dedupe_buffer_size // threads, config.log_cleaner_io_buffer_load_factor
        )

    # -- which log -----------------------------------------------------------------------------------------------------

    def look(self, now_ms: Millis) -> Iterator[Cleaning | None]:
        """Looks at all compacted logs, one each time it is asked: which is the dirtiest of those so far that are due.

        Retention of these logs is the cleaner's too, as in Kafka, and done on the way.
        """
        best: Cleaning | None = None
        dirtiest_ratio = 0.0
        self._looked_ms = now_ms
        for topic_partition in list(self._logs):
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
            logger.error("what there is to clean in %s can't be told: %s", log, error)
            return None
        if plan.is_checkpoint_wrong and not log.config.delete:
            logger.warning(
                "the cleaning of %s begins anew at offset %d: it ended outside of the log last time",
                log,
                plan.first_dirty_offset,
            )
        return plan

    def state(self) -> CleanerState:
        """How the cleaner gets on."""
        return CleanerState(self._looked_ms, self._dirtiest_ratio, len(self._uncleanable))

    def abort(self, topic_partition: TopicPartition) -> None:
        """Has the cleaning of that log end soon, if one is under way. What it has swapped in stays."""
        stopped = self._under_way.get(topic_partition)
        if stopped is not None:
            stopped.set()

    def abort_all(self) -> None:
        """Has all cleanings end soon."""
        for stopped in self._under_way.values():
            stopped.set()

    # -- one log -------------------------------------------------------------------------------------------------------

    def clean(self, cleaning: Cleaning, clock: Callable[[], Millis]) -> Steps:
        """The steps of a cleaning; see the module. It never raises: what goes wrong is logged, and no record is lost.

        A log that holds something that can't be cleaned is left alone until the next start, as in Kafka.
        """
        log = cleaning.log
        topic_partition = log.topic_partition
        if log.compaction.is_under_way or self._logs.get(topic_partition) is not log:
            return False  # another cleaner was faster, or the log is no more
        stopped = self._under_way[topic_partition] = Event()
        log.compaction.is_under_way = True
        settings = PassSettings(self._buffer_bytes, self._throttle, stopped)
        note = partial(self._note, topic_partition)
        try:
            return (yield from clean_log(cleaning, self._table, settings, note, clock))
        except CleaningAborted:
            logger.info("the cleaning of %s was called off", log)
        except UncleanableSegment as error:
            self._uncleanable[topic_partition] = log
            logger.error("%s is not cleaned any more: %s", log, error)
        except (KafkaError, OSError) as error:
            if not log.is_offline:
                logger.error("%s can't be cleaned now: %s", log, error)
        finally:
            log.compaction.is_under_way = False
            del self._under_way[topic_partition]
        return False

    def _note(self, topic_partition: TopicPartition, offset: Offset) -> None:
        self._checkpoint.set(topic_partition, offset, self._logs)


def run_here(steps: Steps) -> bool:
    """Runs a cleaning to its end on this thread; what it returns."""
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
