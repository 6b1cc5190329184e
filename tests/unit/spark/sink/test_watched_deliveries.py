"""Tests that the first failed delivery of a write is noticed, whatever the order of the ends."""

from __future__ import annotations

import pytest

from klamm.client.producer.batch import PendingBatch
from klamm.client.producer.outcome import Delivery
from klamm.protocol.types import Millis, PartitionIndex, TopicPartition
from klamm.spark.sink.watched_deliveries import WatchedDeliveries


def pending() -> PendingBatch:
    """Returns a batch that has not ended."""
    return PendingBatch(TopicPartition("t", PartitionIndex(0)), Millis(0))


def test_the_first_failure_is_raised_each_time() -> None:
    """The error of the batch that failed first is raised although earlier batches have not ended, and again later."""
    watched = WatchedDeliveries()
    batches = [pending() for _ in range(4)]
    for batch in batches:
        watched.add(Delivery(batch, 0))
    batches[1].end()
    watched.check()

    batches[3].end(OSError("the cause"))
    batches[0].end(OSError("a consequence"))

    for _ in range(2):
        with pytest.raises(OSError, match="the cause"):
            watched.check()


def test_a_delivery_that_has_failed_already() -> None:
    """A delivery that has ended before it is watched counts, too."""
    batch = pending()
    batch.end(OSError("refused"))
    watched = WatchedDeliveries()
    watched.add(Delivery(batch, 0))

    with pytest.raises(OSError, match="refused"):
        watched.check()
