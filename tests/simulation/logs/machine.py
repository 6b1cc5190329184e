"""One machine: the real data directory on the simulated disk, and how it starts, stops and crashes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final, cast
from unittest.mock import patch

from tests.simulation.logs.device import Device, Strike
from tests.simulation.logs.threads import Threads

from klamm.config.broker_config import BrokerConfig
from klamm.config.topic_config import TopicConfig
from klamm.protocol.types import Millis, TopicId, TopicPartition
from klamm.storage.checkpoints import RECOVERY_POINT_FILE, MalformedCheckpoint, read_offsets
from klamm.storage.cleaner.cleaning import Step, Steps
from klamm.storage.directory import log_directory, log_opening
from klamm.storage.directory.log_directory import LogDirectory
from klamm.storage.log.log import Log
from klamm.storage.log.producer_snapshot import CorruptSnapshot, read_snapshot
from klamm.storage.log_files import SNAPSHOT_SUFFIX, parse_directory_name

__all__ = ["NOW_MS", "Machine"]

NOW_MS: Final = 1_600_000_000_000


class Machine:
    """The data directory of the running process. `now_ms` is the time on its clock."""

    def __init__(
        self,
        root: Path,
        random: Random,
        device: Device,
        config_of: Callable[[str], TopicConfig],
        topic_ids: Mapping[TopicPartition, TopicId],
        *,
        producer_id_expiration_ms: int,
        began: Callable[[TopicPartition, int, int], None],
    ) -> None:
        """`topic_ids` are the topic ids in the metadata. `began` is called when a cleaning begins, with the time and
        the end offset of the cleaning.
        """
        self._root = root
        self._random = random
        self._config_of = config_of
        self._topic_ids = topic_ids
        self._began = began
        self._config = BrokerConfig(
            log_cleaner_dedupe_buffer_size=48_000,
            log_cleaner_io_buffer_size=16_384,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )
        self.device = device
        self.now_ms = Millis(NOW_MS)
        self.directory: LogDirectory | None = None
        self._cleaning: Steps | None = None
        self._next_step: Step | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs the storage's threads and disk calls here, in the order of the calls, while the context is open."""
        with (
            patch.object(log_directory, "ThreadPoolExecutor", Threads),
            patch.object(log_opening, "ThreadPoolExecutor", Threads),
            self.device.attached(),
        ):
            yield

    @property
    def logs(self) -> dict[TopicPartition, Log]:
        """All logs of the process."""
        return {} if self.directory is None else self.directory.logs

    @property
    def background(self) -> Threads:
        """The pending jobs of the directory's own thread."""
        assert self.directory is not None
        return cast(Threads, self.directory._background)

    # Starts, stops and crashes

    def start(self) -> None:
        """Starts a new process, which opens the data on the disk. May end with a Crash."""
        self.device.begin_life()
        self._set_times()
        self.directory = LogDirectory(
            self._root, clock=lambda: self.now_ms, config=self._config, open_files=64, random=Random(0)
        )
        self.directory.open(self._config_of)
        self.directory.find_lost(self._topic_ids, self._config_of)

    def _set_times(self) -> None:
        """Gives all files the world's time, so that their age does not depend on the real machine."""
        with self.device.passing():
            for folder, _, names in os.walk(self._root):
                for name in names:
                    os.utime(os.path.join(folder, name), ns=(self.now_ms * 1_000_000,) * 2)

    def stop(self) -> None:
        """Stops the process cleanly. May end with a Crash."""
        assert self.directory is not None
        self._call_off()
        self.directory.close()
        self.directory = None

    def _call_off(self) -> None:
        """Stops the cleaner before the directory is closed."""
        assert self.directory is not None
        self.directory.cleaner.abort_all()
        while self._cleaning is not None:
            self.clean()

    def end(self, strike: Strike | None) -> None:
        """Ends the process. `strike` is the cause; it is None if the device was struck before."""
        if strike is not None:
            self.device.strike(strike)
        if self._cleaning is not None:
            self._cleaning.close()
            self._cleaning = self._next_step = None
        if self.directory is not None:
            logs = list(self.directory.logs.values())
            self.background.run_all()
            self.directory.close(clean=False)
            for log in logs:
                log._segments.close()
            for file in list(self.directory._services.pool._open):
                file.release()
        self.directory = None

    # The cleaner

    def clean(self) -> None:
        """Runs one step of a cleaning: the thread's work, then the work between two requests."""
        assert self.directory is not None
        try:
            if self._cleaning is None:
                best = None
                for best in self.directory.cleaner.look(self.now_ms):  # noqa: B007 - the last one is the dirtiest
                    pass
                if best is None:
                    return
                self._began(best.log.topic_partition, self.now_ms, best.plan.first_uncleanable_offset)
                self._cleaning = self.directory.cleaner.clean(best, lambda: self.now_ms)
                self._next_step = next(self._cleaning)
                return
            assert self._next_step is not None
            try:
                outcome = self._next_step()
            except Exception as error:
                self._next_step = self._cleaning.throw(error)
            else:
                self._next_step = self._cleaning.send(outcome)
        except StopIteration:
            self._cleaning = self._next_step = None

    # Files on the disk

    def noted(self, name: str) -> Mapping[TopicPartition, int]:
        """Returns the offsets in the checkpoint of that name."""
        with self.device.passing():
            try:
                return read_offsets(self._root / name)
            except (MalformedCheckpoint, OSError):
                return {}

    def recovery_points(self) -> Mapping[TopicPartition, int]:
        """Returns the offsets up to which the disk reports batches as synced: in the checkpoint, or by a snapshot of
        producers.
        """
        with self.device.passing():
            points = dict(self.noted(RECOVERY_POINT_FILE))
            for path in self._root.glob(f"*/*{SNAPSHOT_SUFFIX}"):
                where = parse_directory_name(path.parent.name)
                if where is not None and is_good_snapshot(path):
                    points[where] = max(points.get(where, 0), int(path.stem))
            return points


def is_good_snapshot(path: Path) -> bool:
    """Returns whether the snapshot can be read."""
    try:
        read_snapshot(path)
    except CorruptSnapshot:
        return False
    return True
