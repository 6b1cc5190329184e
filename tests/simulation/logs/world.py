"""One world of logs: a data directory, the data that are written to it, and everything that happens to its disk.

The world goes through several lives of one machine. In each life, producers write; the log is flushed, rolled, cleaned
and truncated; the disk fills up and fails. Then the process stops, is killed, or loses power, at any call. While the
machine is down, bits may flip. After each start all promised data must be there, and no data that were not written.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from math import inf
from pathlib import Path
from shutil import rmtree
from typing import Final

from tests.simulation.logs.checks import (
    check_epochs,
    check_log,
    check_producers,
    check_timestamps,
    check_transactions,
)
from tests.simulation.logs.damage import Flip, flip_a_bit
from tests.simulation.logs.device import Crash, Device, Strike
from tests.simulation.logs.losses import (
    Loss,
    Vouched,
    lose_something,
    move_an_index_entry,
    swap_an_index,
    tear_an_index,
)
from tests.simulation.logs.machine import NOW_MS, Machine
from tests.simulation.logs.model import PartitionModel, Written
from tests.simulation.logs.plan import make_plan
from tests.simulation.logs.retention import start_after_retention
from tests.simulation.logs.writers import Writers
from tests.simulation.loop import EventLoop
from tests.simulation.notes import Notes
from tests.simulation.violation import Violation

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.storage.checkpoints import CLEAN_SHUTDOWN_FILE, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE
from klamm.storage.log.log import Log
from klamm.storage.recovery.producer_recovery import segment_headers

__all__ = ["LogWorld"]

_READ_ERROR_RATE: Final = 0.07
_MEMORY: Final = Path("/dev/shm")
_TOPIC_ID: Final = TopicId(bytes(range(16)))


class LogWorld:
    """The world of one seed."""

    def __init__(self, seed: int, *, listener: Callable[[str], None] | None = None, sums: bool = False) -> None:
        self.seed = seed
        self.loop = loop = EventLoop(seed)
        self.notes = Notes(loop, listener, sums=sums)
        self._random = loop.random
        self.plan = make_plan(loop.random)
        self._models = {
            TopicPartition(topic, PartitionIndex(0)): PartitionModel(
                config, producer_id_expiration_ms=self.plan.producer_id_expiration_ms
            )
            for topic, config in self.plan.topics.items()
        }
        self._flips: list[Flip] = []
        self._losses: list[Loss] = []
        self._may_be_cut: dict[TopicPartition, int] = {}
        self._epoch = 0
        self._has_lost_power = False
        self._has_failed_sync = False
        self._had_trouble = False
        self._writers = Writers(
            loop.random,
            self.notes,
            producers=self.plan.producers,
            is_well=lambda: not self._is_in_trouble,
            is_damaged=self._is_damaged,
        )
        actions: Mapping[Callable[[], None], int] = {
            self._write: 40,
            self._flush: 4,
            self._run_background: 8,
            self._checkpoint: 4,
            self._housekeep: 6,
            self._clean: 12,
            self._roll: 2,
            self._delete_records: 2,
            self._cut: 2 if self.plan.has_cuts else 0,
            self._pass_time: 5,
            self._read: 5,
            self._trouble: 4,
            self._heal: 3,
            self._arm: 1,
        }
        self._actions = list(actions)
        self._weights = list(actions.values())

    def run(self) -> None:
        """Runs the world. Raises Violation."""
        folder = tempfile.mkdtemp(prefix="klamm-simulation-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
        self._root = Path(folder)
        self._device = Device(self._root, self._random, self.notes.add)
        self._machine = Machine(
            self._root,
            self._random,
            self._device,
            self.plan.topics.__getitem__,
            dict.fromkeys(self._models, _TOPIC_ID),
            producer_id_expiration_ms=self.plan.producer_id_expiration_ms,
            began=lambda where, now_ms, end: self._models[where].cleanings.append((now_ms, end)),
        )
        try:
            with _quiet(), self._machine.running():
                try:
                    for _ in range(self.plan.lives):
                        self._live()
                    self._end()
                except Violation as violation:
                    raise Violation(violation.invariant, self._without_root(violation.text)) from violation
                finally:
                    self._machine.end(Strike.KILL)
        finally:
            rmtree(folder)

    def _chance(self, probability: float) -> bool:
        return self.loop.chance(probability)

    # Starts, stops and crashes

    def _live(self) -> None:
        try:
            self._start()
            for _ in range(self._random.randint(1, self.plan.steps)):
                self.loop.step += 1
                self._act()
            self._stop()
        except Crash:
            self._died(None)
        if self.plan.has_flips and self._chance(0.5):
            self._flip()
        if self.plan.has_losses and self._chance(0.7):
            self._lose()
        if self.plan.has_read_errors:
            self._tear()

    def _end(self) -> None:
        """Runs the last lives, without faults, and checks that all expected data are there."""
        for flip in self._flips:
            flip.mend(self._device.turn)
        self._flips.clear()
        self._bring_back(self._losses)
        self._start(is_calm=True)
        for _ in range(5):
            self._write()
        self._machine.background.run_all()
        self._died(Strike.KILL)
        self._start(is_calm=True)

    def _start(self, *, is_calm: bool = False) -> None:
        self._heal()
        self._had_trouble = False
        strike = self._some_strike()
        if not is_calm and strike is not None and self._chance(0.15):
            self._device.begin_life()
            self._device.arm(strike, self._random.randint(1, 30))
        points = self._recovery_points()
        self._sort_flips(points)
        self._epoch += 1  # Each start has its own leader epoch.
        self._machine.start()
        self.notes.add("started")
        for where, model in self._models.items():
            self._check_started(where, model, points.get(where, 0))
        broken = [flip for flip in self._flips if self._log(flip.where).is_offline]
        if broken or self._losses:
            self._died(Strike.KILL)
            self._bring_back(self._losses)
            for flip in broken:
                self.notes.add("%s is brought back from a copy", flip.where)
                flip.mend(self._device.turn)
                self._flips.remove(flip)
            self._start(is_calm=is_calm)
            return
        self._has_lost_power = self._has_failed_sync = False
        self._may_be_cut.clear()

    def _sort_flips(self, points: Mapping[TopicPartition, float]) -> None:
        """Moves damage above the disk's recovery point to `_may_be_cut`: the log can't tell it from a torn tail, and
        may truncate it.
        """
        for flip in list(self._flips):
            if flip.base_offset >= points.get(flip.where, 0):
                if flip.is_there:
                    at = min(flip.cut_at, self._may_be_cut.get(flip.where, flip.cut_at))
                    self._may_be_cut[flip.where] = at
                self._flips.remove(flip)

    def _recovery_points(self) -> Mapping[TopicPartition, float]:
        """Returns the recovery points on the disk before a start; after a clean stop they cover everything."""
        if (self._root / CLEAN_SHUTDOWN_FILE).exists():
            return dict.fromkeys(self._models, inf)
        return self._machine.recovery_points()

    def _some_strike(self) -> Strike | None:
        strikes = [Strike.KILL] * self.plan.has_kills + [Strike.POWER] * self.plan.has_power_failures
        return self._random.choice(strikes) if strikes else None

    def _stop(self) -> None:
        strike = self._some_strike()
        if strike is not None and not (self.plan.has_clean_stops and self._chance(0.4)):
            self._died(strike)
            return
        ends = {where: log.log_end_offset for where, log in self._machine.logs.items() if not log.is_offline}
        if strike is not None and self._chance(0.3):
            self._device.arm(strike, self._random.randint(1, 20))
        self._machine.stop()
        with self._device.passing():
            is_clean = (self._root / CLEAN_SHUTDOWN_FILE).exists()
        self.notes.add("stopped, %s", "in order" if is_clean else "not in order")
        if is_clean:
            for where, end in ends.items():
                self._models[where].must_last = end
                self._models[where].start_must_last = True
        elif not self._had_trouble and len(ends) == len(self._models):
            raise Violation(8, "a stop was not a clean one, and nothing had gone wrong")
        self._died(None if strike is not Strike.POWER else strike)

    def _died(self, strike: Strike | None) -> None:
        """Ends the process. `strike` is None if the process was struck before, or has stopped."""
        if strike is not None:
            self.notes.add("%s", strike)
        self._machine.end(strike)
        if self._device.image is not None:
            self._has_lost_power = True
        self._device.begin_life()

    def _log(self, where: TopicPartition) -> Log:
        return self._machine.logs[where]

    # After a start

    def _check_started(self, where: TopicPartition, model: PartitionModel, point: float) -> None:
        must_last = model.must_last if self._has_lost_power or self._has_failed_sync else model.end
        must_last = min(must_last, self._may_be_cut.get(where, must_last))
        if model.may_end_at is not None:
            must_last = min(must_last, model.may_end_at)
        flips = [flip for flip in self._flips if flip.where == where and flip.is_there]
        log = self._machine.logs.get(where)
        if log is None:
            if must_last > 0:
                raise Violation(8, f"{where} is gone, and records up to {must_last} must be there")
            model.cut(0)
            model.may_end_at = None
            self._create(where)
            return
        losses = [loss for loss in self._losses if loss.where == where]
        if log.is_offline:
            reason = log.offline_reason or ""
            names = [flip.path.name in reason for flip in flips] + [loss.is_named_in(reason) for loss in losses]
            if not any(names):
                raise Violation(8, f"{log.offline_reason}")
            self.notes.add("%s", self._without_root(log.offline_reason))
            return
        if losses:
            raise Violation(8, f"nobody misses {losses[0].what}")
        model.may_end_at = None  # An offline log is checked when it is intact again.
        self._check_end(log, model, must_last)
        if model.is_compacted and point == 0:
            self._forgive_holes(log, model, must_last)
        highest = max(model.start, model.may_start_at)
        if log.log_start_offset > highest or (model.start_must_last and log.log_start_offset < model.start):
            raise Violation(4, f"{log} begins at {log.log_start_offset}, and did at {model.start}")
        model.start = log.log_start_offset
        model.highest_start = max(model.highest_start, highest)
        model.start_must_last, model.may_start_at = False, 0
        model.loaded_end = log.log_end_offset
        model.assigned = None
        check_epochs(log, model, self._random)
        self._advance(log)
        self._note_synced(log, model)
        if not (self._flips and self._chance(0.5)):
            self._check_first(log, model)
        if not log.is_offline:
            self._lead(log, model)
            self._advance(log)
            if self.plan.waits_for_disk and log.recovery_point < log.log_end_offset:
                log.durability.flush_in_background(self._machine.now_ms)

    def _check_end(self, log: Log, model: PartitionModel, must_last: int) -> None:
        """I8: checks that all synced data are there, and nothing that was not written; a torn batch is truncated."""
        end = log.log_end_offset
        self.notes.add("%s ends at %d; written %d, must last %d", log, end, model.end, must_last)
        if end < must_last:
            raise Violation(8, f"{log} ends at {end}, and records up to {must_last} must be there")
        in_flight, model.in_flight = model.in_flight, None
        if end > model.end:
            if in_flight is None or Written.of(in_flight).header.next_offset != end:
                raise Violation(8, f"{log} ends at {end}, and only {model.end} was written")
            model.append(in_flight)
        model.cut(end)
        if log.log_start_offset == end <= max(model.start, model.may_start_at):
            # Only deleted records are left, or fewer. Kafka's LogLoader then starts the log again at the start offset
            # in its checkpoint, which a client may have set to any offset (truncateFullyAndStartAt).
            model.lose(model.end, end)
        if model.end not in (0, end):
            raise Violation(8, f"{log} ends at {end}, in the midst of a batch")

    def _forgive_holes(self, log: Log, model: PartitionModel, must_last: int) -> None:
        """Accepts the gaps of a compacted log. Without a recovery point on the disk, it can't tell the lost end of a
        segment from a gap that a cleaner of Apache Kafka has left.
        """
        for segment, following in pairwise(log._segments):
            with self._device.passing():
                end = max((header.next_offset for _, header in segment_headers(segment)), default=segment.base_offset)
            gone = [batch.header.base_offset for batch in model.batches_between(end, following.base_offset)]
            if any(offset < must_last for offset in gone):
                raise Violation(8, f"{log} has no batches at {gone}, and records up to {must_last} must be there")
            if end < following.base_offset:
                model.lose(end, following.base_offset)

    def _check_first(self, log: Log, model: PartitionModel) -> None:
        """Checks a log after a start. The first reads repair indexes that were damaged before; if some reads fail,
        later reads do it.
        """
        if self.plan.has_read_errors and self._chance(0.5):
            for _ in range(3):
                self._device.read_error_rate = _READ_ERROR_RATE
                self._check(log, model)
            self._device.read_error_rate = 0.0
        self._check(log, model)

    def _check(self, log: Log, model: PartitionModel) -> None:
        """Checks everything that a client can see of a log."""
        try:
            found = check_log(log, model, self._random)
            check_transactions(log, model, found, self._random, self._machine.now_ms)
            check_timestamps(log, found, self._random)
        except KafkaError as error:
            self._judge_read_error(log, error)
            return
        check_producers(log, model, found, self._machine.now_ms)
        check_epochs(log, model, self._random)

    def _judge_read_error(self, log: Log, error: KafkaError) -> None:
        """Judges a failed read. An unreadable log is offline and names the reason; a log whose reads fail only
        sometimes is online.
        """
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR and self._is_unreadable and not log.is_offline:
            return
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or not self._is_damaged(log):
            raise Violation(8, f"{log} can't be read: {error}") from error
        self.notes.add("%s", self._without_root(log.offline_reason))

    def _is_damaged(self, log: Log) -> bool:
        """Returns whether the log is offline, with a reason that names a file with a flipped bit."""
        reason = log.offline_reason or ""
        return any(flip.path.name in reason for flip in self._flips if flip.where == log.topic_partition)

    def _without_root(self, text: str | None) -> str:
        return (text or "").replace(str(self._root), "")

    # Actions of a running process

    def _act(self) -> None:
        self._random.choices(self._actions, self._weights)[0]()
        for where, log in self._machine.logs.items():
            model = self._models[where]
            self._note_synced(log, model)
            if log.log_start_offset != model.start:
                raise Violation(4, f"{log} begins at {log.log_start_offset}, and is to begin at {model.start}")

    def _note_synced(self, log: Log, model: PartitionModel) -> None:
        """Records what the log reports as synced: later lives must keep it."""
        if not log.is_offline:
            model.must_last = max(model.must_last, log.recovery_point)
            if not self.plan.has_followers or self._chance(0.04):
                self._advance(log)
            model.was_stable = max(model.was_stable, log.last_stable_offset)

    def _advance(self, log: Log) -> None:
        log.advance_high_watermark(log.recovery_point if self.plan.waits_for_disk else log.log_end_offset)

    def _some_log(self) -> tuple[Log, PartitionModel]:
        where = self._random.choice(list(self._models))
        return self._log(where), self._models[where]

    def _create(self, where: TopicPartition) -> None:
        assert self._machine.directory is not None
        log = self._machine.directory.create(where, _TOPIC_ID, self.plan.topics[where.topic])
        model = self._models[where]
        model.start = model.loaded_end = 0
        self._lead(log, model)

    def _lead(self, log: Log, model: PartitionModel) -> None:
        model.assigned = (self._epoch, log.log_end_offset)
        log.assign_leader_epoch(LeaderEpoch(self._epoch))

    def _write(self) -> None:
        self._writers.write(*self._some_log(), self._machine.now_ms)

    def _flush(self) -> None:
        log, _ = self._some_log()
        if not log.is_offline:
            log.durability.flush_in_background(self._machine.now_ms)

    def _run_background(self) -> None:
        if len(self._machine.background):
            self._machine.background.run_one()

    def _checkpoint(self) -> None:
        assert self._machine.directory is not None
        self._machine.directory.checkpoint()

    def _housekeep(self) -> None:
        assert self._machine.directory is not None
        now_ms = self._machine.now_ms
        starts = {
            where: start_after_retention(
                self._models[where],
                [segment.base_offset for segment in log._segments],
                high_watermark=log.high_watermark,
                now_ms=now_ms,
            )
            for where, log in self._machine.logs.items()
            if not (log.is_offline or log.compaction.is_under_way)
        }
        actives = {where: int(self._log(where)._segments[-1].base_offset) for where in starts}
        for where, start in starts.items():
            self._models[where].may_start_at = start
        self._machine.directory.housekeep(now_ms)
        for where, start in starts.items():
            log, model = self._log(where), self._models[where]
            model.may_start_at = 0
            if log.is_offline:
                continue
            # A disk without room for a new segment keeps the active one; the others are deleted.
            allowed = {start, model.start, min(start, actives[where])} if self._is_in_trouble else {start}
            if log.log_start_offset not in allowed:
                raise Violation(4, f"after retention {log} begins at {log.log_start_offset}, and should at {start}")
            model.raise_start(log.log_start_offset)
            self._check_forgotten(log, model)

    def _check_forgotten(self, log: Log, model: PartitionModel) -> None:
        """I10: checks that the log does not remember a producer that was idle for too long."""
        producers = model.producers()
        for producer_id, _ in log.producers.active():
            if model.may_be_forgotten(producers[producer_id], self._machine.now_ms):
                raise Violation(10, f"{log} still remembers producer {producer_id}: {producers[producer_id]}")

    def _cut(self) -> None:
        """Truncates a log, like a follower whose leader does not have the end of the log; then makes the log a
        leader's.
        """
        log, model = self._some_log()
        if log.is_offline or model.is_compacted or self._flips:
            return
        offset = Offset(self._random.randint(max(log.log_start_offset, log.log_end_offset - 12), log.log_end_offset))
        batch = model.batch_at(offset)
        end = offset if batch is None else batch.header.base_offset
        if end > log.high_watermark or end < log.log_start_offset:
            # A truncation here would forget which transactions are decided but not committed yet, as in Apache Kafka. A
            # crash also forgets a log start that falls with the end, in Kafka as in klamm.
            return
        model.may_end_at = end
        try:
            log.truncate_to(offset, self._machine.now_ms)
        except KafkaError as error:
            self._expect_trouble(log, error)
            return
        self.notes.add("%s is cut at %d, and ends at %d", log, offset, log.log_end_offset)
        model.may_end_at = None
        model.cut(end)
        model.loaded_end = end
        model.assigned = None
        self._check(log, model)
        self._epoch += 1
        self._lead(log, model)

    def _clean(self) -> None:
        for where, model in self._models.items():
            log = self._log(where)
            if model.is_compacted and log._segments.active is not None:
                model.cleaned_below = max(model.cleaned_below, log._segments.active.base_offset)
        for _ in range(self._random.choice((1, 1, 1, 8, 40))):
            self._machine.clean()

    def _roll(self) -> None:
        log, _ = self._some_log()
        try:
            log.roll(self._machine.now_ms)
        except KafkaError as error:
            self._expect_trouble(log, error)

    def _delete_records(self) -> None:
        log, model = self._some_log()
        if model.is_compacted:
            return
        try:
            offset = Offset(self._random.randint(0, log.high_watermark))
            log.delete_records_before(offset)
        except KafkaError as error:
            self._expect_trouble(log, error)
        else:
            model.raise_start(offset)

    def _expect_trouble(self, log: Log, error: KafkaError) -> None:
        if not log.is_offline and not self._is_in_trouble:
            raise Violation(4, f"{log}: {error}") from error

    def _pass_time(self) -> None:
        self._machine.now_ms = Millis(self._machine.now_ms + self.loop.between(1, 2_000))
        self.loop.now_ms = self._machine.now_ms - NOW_MS

    def _read(self) -> None:
        log, model = self._some_log()
        if not log.is_offline:
            self._check(log, model)

    # Faults

    @property
    def _is_in_trouble(self) -> bool:
        device = self._device
        return device.free_bytes is not None or device.error_rate > 0 or device.failing_syncs > 0 or self._is_unreadable

    @property
    def _is_unreadable(self) -> bool:
        return self._device.read_error_rate > 0

    def _trouble(self) -> None:
        plan, device = self.plan, self._device
        kinds = ["full"] * plan.has_full_disk + ["errors"] * plan.has_write_errors
        kinds += ["syncs"] * plan.has_failed_syncs + ["reads"] * plan.has_read_errors
        if not kinds:
            return
        kind = self._random.choice(kinds)
        self._heal()  # Only one fault at a time: a full disk does not even store the mark of a failed sync.
        self.notes.add("trouble: %s", kind)
        self._had_trouble = True
        if kind == "full":
            device.free_bytes = self._random.randint(0, 600)
        elif kind == "errors":
            device.error_rate = 0.3
        elif kind == "reads":
            device.read_error_rate = _READ_ERROR_RATE
        else:
            device.failing_syncs = 1
            self._has_failed_sync = True

    def _heal(self) -> None:
        self._device.free_bytes = None
        self._device.error_rate = 0.0
        self._device.failing_syncs = 0
        self._device.read_error_rate = 0.0

    def _arm(self) -> None:
        strike = self._some_strike()
        if strike is not None:
            self._device.arm(strike, self._random.randint(1, 60))

    def _lose(self) -> None:
        where = self._random.choice(list(self._models))
        folder = self._root / str(where)
        if any(flip.where == where for flip in self._flips) or any(loss.where == where for loss in self._losses):
            return
        machine = self._machine
        vouched = Vouched(
            machine.noted(RECOVERY_POINT_FILE).get(where, 0),
            machine.recovery_points().get(where, 0),
            machine.noted(LOG_START_OFFSET_FILE).get(where),
        )
        with self._device.passing():
            if not folder.exists() or not self._device.settle():
                return
            if self._chance(0.3):
                swapped = swap_an_index(folder, self._random)
                if swapped is not None:
                    self.notes.add("%s", swapped)
            else:
                loss = lose_something(where, folder, vouched, self._random)
                if loss is not None:
                    self._losses.append(loss)
                    self.notes.add("lost is %s", loss.what)
            self._device.settle()

    def _tear(self) -> None:
        """Damages indexes while the machine is down: a read rebuilds them, and reads may fail."""
        with self._device.passing():
            for where in self._models:
                folder = self._root / str(where)
                damage = move_an_index_entry if self._chance(0.3) else tear_an_index
                torn = damage(folder, self._random) if folder.exists() and self._device.settle() else None
                if torn is not None:
                    self.notes.add("%s", torn)
            self._device.settle()

    def _bring_back(self, losses: list[Loss]) -> None:
        with self._device.passing():
            for loss in losses:
                self.notes.add("%s is brought back from a copy", loss.what)
                loss.mend()
            if losses and not self._device.settle():
                raise AssertionError("a sync has failed while nothing ran")
        losses.clear()

    def _flip(self) -> None:
        where = self._random.choice(list(self._models))
        if any(loss.where == where for loss in self._losses):
            return
        folder = self._root / str(where)
        with self._device.passing():
            flip = flip_a_bit(where, folder, self._random, self._device.turn) if folder.exists() else None
        if flip is None:
            return
        if self._models[where].is_compacted and flip.base_offset >= self._recovery_points().get(where, 0):
            # The log would be truncated there, and would lose records for which the cleaner has already removed others.
            flip.mend(self._device.turn)
        else:
            self._flips.append(flip)
            self.notes.add("a bit of the batch at %d of %s falls over", flip.base_offset, where)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the storage's log messages, which nothing reads here."""
    logger = logging.getLogger("klamm.storage")
    level, propagates = logger.level, logger.propagate
    logger.setLevel(logging.CRITICAL + 1)
    logger.propagate = False
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.propagate = propagates
