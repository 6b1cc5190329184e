"""Tests what a partition remembers of records that are not committed yet, and what it tells observers of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.broker.partitions.followers import Followers
from klamm.broker.partitions.partition import Partition
from klamm.metadata.image import PartitionImage
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicPartition

ONE, TWO = BrokerId(1), BrokerId(2)
RECORDS = batch()
COUNT = 3000
REMEMBERED = 1000


class Port:
    """Broker 1; broker 2 is live, too."""

    node_id = ONE
    max_lag_ms = 1000

    def now_ms(self) -> float:
        return 0.0

    def live_epoch(self, broker_id: BrokerId) -> int | None:
        return int(broker_id)

    def propose(self, partition: Partition) -> None:
        raise AssertionError("the in-sync replicas don't change here")

    def give_up(self, topic_partition: TopicPartition) -> None:
        raise AssertionError("no write fails here")


class Observer:
    """Counts the bytes that became visible, and how often it has to read again because they are not known."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.interruptions = 0

    def appended(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes

    def interrupted(self) -> None:
        self.interruptions += 1


class Led:
    """A partition of brokers 1 and 2 with records that broker 2 has not fetched yet."""

    def __init__(self, folder: LogFolder, count: int) -> None:
        image = PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE, TWO), (ONE, TWO))
        self.partition = Partition("orders", image, folder.create())
        self.partition.replicate(Followers(image, self.partition.epoch_start_offset, Port()))
        self.observer = Observer()
        self.partition.observe(self.observer)
        for _ in range(count):
            self.partition.append(RECORDS, NOW_MS)

    def fetch(self, offset: int) -> tuple[int, int]:
        """Broker 2 fetches from the offset. Returns for how many batches the observer has the size, and how often it
        was interrupted."""
        self.partition.follower_fetched(TWO, 2, Offset(offset), Offset(0))
        assert self.partition.log.high_watermark == offset
        count, rest = divmod(self.observer.size_bytes, len(RECORDS))
        assert not rest
        return count, self.observer.interruptions


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    made = LogFolder(tmp_path)
    yield made
    made.close()


def test_observers_hear_of_all_bytes_once_they_are_committed(folder: LogFolder) -> None:
    """The sizes of the first batches are known one by one, and those of the others as a sum."""
    led = Led(folder, COUNT)
    assert len(led.partition._uncommitted) == REMEMBERED
    assert led.fetch(10) == (10, 0)
    assert led.fetch(REMEMBERED - 1) == (REMEMBERED - 1, 0)
    assert led.fetch(COUNT) == (COUNT, 0)
    assert not led.partition._uncommitted
    led.partition.append(RECORDS, NOW_MS)
    assert led.fetch(COUNT + 1) == (COUNT + 1, 0)


def test_observers_read_again_when_some_of_the_batches_that_were_counted_together_are_committed(
    folder: LogFolder,
) -> None:
    """The partition does not know how many bytes they have. It tells the sum when all of them are committed."""
    led = Led(folder, COUNT)
    assert led.fetch(REMEMBERED + 500) == (REMEMBERED - 1, 1)
    assert led.fetch(REMEMBERED + 600) == (REMEMBERED - 1, 2)
    assert led.fetch(COUNT) == (COUNT, 2)
