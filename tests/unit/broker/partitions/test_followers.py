"""Tests what a leader commits as its followers fetch, and when it proposes other in-sync replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.broker.partitions.followers import Followers
from klamm.broker.partitions.partition import Partition
from klamm.metadata.image import PartitionImage
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicPartition

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
LAG_MS = 1000


class Port:
    """Broker 1, with a clock and a view of live brokers that the test sets."""

    node_id = ONE
    max_lag_ms = LAG_MS

    def __init__(self) -> None:
        self.ms = 0.0
        self.live: dict[BrokerId, int] = {ONE: 1, TWO: 2, THREE: 3}
        self.proposals = 0
        self.given_up: list[TopicPartition] = []

    def now_ms(self) -> float:
        return self.ms

    def live_epoch(self, broker_id: BrokerId) -> int | None:
        return self.live.get(broker_id)

    def propose(self, partition: Partition) -> None:
        self.proposals += 1

    def give_up(self, topic_partition: TopicPartition) -> None:
        self.given_up.append(topic_partition)


class Led:
    """A partition that broker 1 leads, with followers 2 and 3."""

    def __init__(self, folder: LogFolder, isr: tuple[BrokerId, ...], least: int) -> None:
        image = PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE, TWO, THREE), isr)
        self.port = Port()
        self.log = folder.create(min_insync_replicas=least)
        self.partition = Partition("orders", image, self.log)
        self.followers = Followers(image, self.partition.epoch_start_offset, self.port)
        self.partition.replicate(self.followers)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.partition.append(batch(), NOW_MS)

    def fetch(self, broker: BrokerId, offset: int, epoch: int | None = None) -> None:
        broker_epoch = int(broker) if epoch is None else epoch
        self.followers.check_replica(broker, broker_epoch, knows_leader_epoch=True)
        self.partition.follower_fetched(broker, broker_epoch, Offset(offset), Offset(0))

    def show(self, *isr: BrokerId) -> None:
        """Shows other in-sync replicas in the metadata."""
        self.partition.follow(replace(self.partition.image, isr=isr), self.log.config)
        self.partition.reconsider_high_watermark()

    @property
    def committed(self) -> int:
        return self.log.high_watermark


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    made = LogFolder(tmp_path)
    yield made
    made.close()


def test_record_is_committed_when_all_in_sync_replicas_have_it(folder: LogFolder) -> None:
    """I4: the slowest in-sync follower decides; a follower tells with its next fetch what it holds."""
    led = Led(folder, (ONE, TWO, THREE), 2)
    led.append(3)
    assert led.committed == 0
    led.fetch(TWO, 3)
    assert led.committed == 0
    led.fetch(THREE, 2)
    assert led.committed == 2
    led.fetch(THREE, 3)
    assert led.committed == 3


def test_leader_that_cant_write_gives_up(folder: LogFolder) -> None:
    """A failure of the disk asks for another leader. A batch that is refused for another reason does not."""
    led = Led(folder, (ONE, TWO, THREE), 2)
    with pytest.raises(KafkaError):
        led.partition.append(b"no batch", NOW_MS)
    assert led.port.given_up == []
    led.log.leave(led.log.directory, "is on a broken disk")
    with pytest.raises(KafkaError) as refused:
        led.append()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert led.port.given_up == [led.log.topic_partition]
    led.partition.replicate(None)
    with pytest.raises(KafkaError):
        led.append()
    assert led.port.given_up == [led.log.topic_partition]


def test_followers_that_are_not_in_sync_hold_up_nothing(folder: LogFolder) -> None:
    """A partition whose only in-sync replica is the leader commits at once."""
    led = Led(folder, (ONE,), 1)
    led.append(2)
    assert led.committed == 2


def test_nothing_is_committed_with_too_few_replicas(folder: LogFolder) -> None:
    """KIP-966: with fewer in-sync replicas than required the high watermark stands still."""
    led = Led(folder, (ONE, TWO), 2)
    led.append(2)
    led.show(ONE)
    assert led.committed == 0
    with pytest.raises(KafkaError) as refused:
        led.partition.check_in_sync_replicas()
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_batch_behind_a_refused_one_is_not_written_before_it(folder: LogFolder) -> None:
    """Two batches of a new producer are in flight. The first one is refused because too few replicas are in sync. If
    the replicas are back when the second one comes, it waits for the first one, as I10 requires."""
    led = Led(folder, (ONE, TWO), 2)
    first, second = (batch(producer_id=7, epoch=0, sequence=sequence) for sequence in (0, 1))
    led.show(ONE)
    for refused_records in (first, b"no batch", batch()):
        with pytest.raises(KafkaError) as refused:
            led.partition.check_in_sync_replicas(refused_records)
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    led.show(ONE, TWO)

    with pytest.raises(KafkaError) as refused:
        led.partition.append(second, NOW_MS)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [led.partition.append(each, NOW_MS).first_offset for each in (first, second)] == [0, 1]


def test_follower_that_lags_is_proposed_to_leave(folder: LogFolder) -> None:
    """Until the outcome is known, the high watermark still waits for it (KIP-497)."""
    led = Led(folder, (ONE, TWO, THREE), 1)
    led.append()
    led.port.ms = LAG_MS / 2
    led.fetch(TWO, 1)
    led.port.ms = LAG_MS + 1
    led.followers.check_lag(led.partition)
    assert led.port.proposals == 1
    members = led.followers.begin_proposal(led.partition)
    assert members == [(ONE, 1), (TWO, 2)]
    assert led.followers.begin_proposal(led.partition) is None
    led.partition.reconsider_high_watermark()
    assert led.committed == 0
    led.show(ONE, TWO)
    led.followers.end_proposal(led.partition.image)
    led.partition.reconsider_high_watermark()
    assert led.committed == 1


def test_high_watermark_waits_until_the_partition_follows_the_outcome(folder: LogFolder) -> None:
    """A broker follows the metadata in steps. So the outcome may be known before the partition has the new in-sync
    replicas: until then, the high watermark waits for the replicas of both sets, and nothing else is proposed."""
    led = Led(folder, (ONE, TWO), 1)
    led.fetch(TWO, 0)
    led.fetch(THREE, 0)
    assert led.followers.begin_proposal(led.partition) == [(ONE, 1), (TWO, 2), (THREE, 3)]
    after = replace(led.partition.image, isr=(ONE, TWO, THREE), partition_epoch=1)
    led.followers.end_proposal(after)
    led.append()
    led.fetch(TWO, 1)
    led.port.ms = LAG_MS + 1
    led.followers.check_lag(led.partition)
    assert led.committed == 0
    assert led.followers.begin_proposal(led.partition) is None
    led.partition.follow(after, led.log.config)
    led.partition.reconsider_high_watermark()
    assert led.committed == 0
    assert led.followers.begin_proposal(led.partition) == [(ONE, 1), (TWO, 2)]
    led.followers.end_proposal(None)


def test_follower_that_caught_up_is_proposed_to_join(folder: LogFolder) -> None:
    """It is proposed with the epoch of the run that fetched. The high watermark waits for it already."""
    led = Led(folder, (ONE, TWO), 1)
    led.append(2)
    led.fetch(TWO, 2)
    led.fetch(THREE, 2)
    assert led.port.proposals == 1
    assert led.followers.begin_proposal(led.partition) == [(ONE, 1), (TWO, 2), (THREE, 3)]
    led.append()
    led.fetch(TWO, 3)
    assert led.committed == 2


def test_high_watermark_waits_for_a_follower_that_is_about_to_join(folder: LogFolder) -> None:
    """Otherwise it would be ahead of the follower for as long as records arrive, and the follower could never join."""
    led = Led(folder, (ONE,), 1)
    led.append(2)
    led.fetch(TWO, 0)
    led.append()
    led.fetch(TWO, 2)
    led.append()
    assert led.committed == 3
    led.fetch(TWO, 3)
    assert led.port.proposals == 1


@pytest.mark.parametrize("live", [None, 7])
def test_broker_that_has_gone_or_started_again_is_not_proposed(folder: LogFolder, live: int | None) -> None:
    """KIP-903: the new run may have lost what the old one held."""
    led = Led(folder, (ONE, TWO), 1)
    led.append(2)
    if live is None:
        del led.port.live[THREE]
    led.fetch(THREE, 2)
    led.port.live[TWO] = 2
    if live is not None:
        led.port.live[THREE] = live
        led.port.proposals = 0
    assert led.followers.begin_proposal(led.partition) is None


def test_fetch_of_a_run_that_is_over_is_refused(folder: LogFolder) -> None:
    """A late request of the former process must not count."""
    led = Led(folder, (ONE, TWO), 1)
    with pytest.raises(KafkaError) as refused:
        led.fetch(TWO, 0, epoch=1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_broker_without_a_replica_is_refused(folder: LogFolder) -> None:
    """It may have been added in metadata that this broker does not know yet."""
    led = Led(folder, (ONE, TWO), 1)
    with pytest.raises(KafkaError) as refused:
        led.fetch(BrokerId(9), 0)
    assert refused.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_low_watermark_is_the_lowest_start_of_live_replicas(folder: LogFolder) -> None:
    """KIP-107: a deletion is complete when no live replica has the records."""
    led = Led(folder, (ONE, TWO, THREE), 1)
    led.append(5)
    for broker, start in ((TWO, 3), (THREE, 1)):
        led.partition.follower_fetched(broker, int(broker), Offset(5), Offset(start))
    assert led.followers.low_watermark(Offset(4), [ONE, TWO, THREE]) == 1
    assert led.followers.low_watermark(Offset(4), [ONE, TWO]) == 3


def test_nothing_is_committed_after_the_session_can_have_ended(folder: LogFolder) -> None:
    """I6: from then on another broker may lead the partition, although this one has not heard of it."""
    led = Led(folder, (ONE, TWO), 1)
    is_valid = True
    led.partition.may_commit = lambda: is_valid
    led.append(2)
    led.fetch(TWO, 1)
    assert led.committed == 1
    is_valid = False
    led.fetch(TWO, 2)
    assert led.committed == 1


def test_a_replica_that_left_on_its_own_joins_only_after_a_fetch(folder: LogFolder) -> None:
    """A follower whose log is offline leaves the in-sync replicas in the metadata. Nothing waits for it from then on,
    and it is not proposed again until it fetches, although it had every record."""
    led = Led(folder, (ONE, TWO, THREE), 2)
    led.append(3)
    led.fetch(TWO, 3)
    led.fetch(THREE, 3)
    led.show(ONE, TWO)
    led.append()
    led.fetch(TWO, 4)
    assert led.committed == 4
    led.followers.check_lag(led.partition)
    assert led.port.proposals == 0
    led.fetch(THREE, 4)
    assert led.port.proposals == 1
