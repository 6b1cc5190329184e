"""The leader epochs that a worker commits."""

from __future__ import annotations

from typing import NamedTuple

from klamm.core.delivery.work import Received
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.worker.record_epochs import RecordEpochs

P0, P1 = (TopicPartition("orders", PartitionIndex(index)) for index in range(2))


class _Message(NamedTuple):
    """A message of librdkafka, as far as epochs are concerned."""

    epoch: int | None

    def leader_epoch(self) -> int | None:
        return self.epoch


def _note(epochs: RecordEpochs, first: int, *found: int | None, partition: TopicPartition = P0) -> None:
    epochs.note(partition, [Received(Offset(first + at), None, 1, _Message(epoch)) for at, epoch in enumerate(found)])


def _before(epochs: RecordEpochs, *offsets: int, partition: TopicPartition = P0) -> list[int | None]:
    return [epochs.before(partition, Offset(offset)) for offset in offsets]


def test_a_commit_has_the_epoch_of_the_last_record_before_its_offset() -> None:
    """The epoch of the record at the offset itself may be a later one."""
    epochs = RecordEpochs()
    epochs.begin(P0, Offset(10), 3)
    assert _before(epochs, 10) == [3]
    _note(epochs, 10, 3, 3, 5, 5)
    _note(epochs, 14, 5, 5)
    _note(epochs, 20, 6, partition=P1)
    _note(epochs, 16, 7)
    assert _before(epochs, 10, 11, 12, 13, 16, 17) == [3, 3, 3, 5, 5, 7]
    assert _before(epochs, 20, 21, partition=P1) == [None, 6]


def test_records_that_are_read_again_may_have_other_epochs() -> None:
    """After a truncation, the offsets have other records. What was before them stays."""
    epochs = RecordEpochs()
    epochs.begin(P0, None, None)
    _note(epochs, 0, 1, 1, 2, 3)
    _note(epochs, 2, 4, 4)
    assert _before(epochs, 0, 1, 2, 3, 4) == [None, 1, 1, 4, 4]
    epochs.begin(P0, Offset(2), None)
    assert _before(epochs, 2) == [None]


def test_a_broker_may_tell_no_epoch() -> None:
    """Records of an old broker have none, and neither have commits."""
    epochs = RecordEpochs()
    epochs.begin(P0, Offset(0), None)
    _note(epochs, 0, None, None)
    assert _before(epochs, 0, 2) == [None, None]
