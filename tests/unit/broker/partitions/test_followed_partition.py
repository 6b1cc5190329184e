"""Tests the reads that wait at a follower."""

from __future__ import annotations

from klamm.broker.partitions.followed_partition import FollowerReads
from klamm.protocol.types import Offset, TopicId

KEY = TopicId(bytes(16)), 0
OTHER = TopicId(bytes(16)), 1


class Observer:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[int | str] = []

    def appended(self, size_bytes: int) -> None:
        self.told.append(size_bytes)

    def interrupted(self) -> None:
        self.told.append("interrupted")


def test_a_read_hears_of_records_when_the_high_watermark_passes_them() -> None:
    """Records that are only copied are not readable. The sizes of all that become readable are added up."""
    reads, observer = FollowerReads(), Observer()
    reads.wait(KEY, observer)
    reads.copied(KEY, Offset(3), 30)
    reads.copied(KEY, Offset(5), 20)
    reads.copied(KEY, Offset(9), 40)
    assert observer.told == []
    reads.committed(KEY, Offset(5))
    assert observer.told == [50]
    reads.committed(KEY, Offset(9))
    assert observer.told == [50, 40]


def test_a_read_is_interrupted_if_the_size_is_not_known() -> None:
    """Records that were copied before the read began to wait may be of any size, so the read looks itself."""
    reads, observer = FollowerReads(), Observer()
    reads.wait(KEY, observer)
    reads.committed(KEY, Offset(5))
    assert observer.told == ["interrupted"]


def test_a_read_hears_of_its_own_partition_until_its_release() -> None:
    """Other partitions, and what happens after the release, concern the read no more."""
    reads, observer, other = FollowerReads(), Observer(), Observer()
    reads.wait(KEY, observer)
    reads.wait(KEY, other)
    reads.copied(OTHER, Offset(3), 30)
    reads.committed(OTHER, Offset(3))
    reads.end(OTHER)
    assert observer.told == []
    reads.release(KEY, observer)
    reads.end(KEY)
    assert (observer.told, other.told) == ([], ["interrupted"])
    reads.release(KEY, other)
    reads.release(KEY, other)
    assert len(reads) == 0
    assert KEY not in reads


def test_sizes_of_very_many_copies_are_counted_together() -> None:
    """The high watermark may stand still for hours, because too few replicas are in sync. The memory does not grow, and
    no bytes are lost."""
    reads, observer = FollowerReads(), Observer()
    reads.wait(KEY, observer)
    for offset in range(1, 10_001):
        reads.copied(KEY, Offset(offset), 10)
    assert len(reads._waiting[KEY].uncommitted) == 1000
    reads.committed(KEY, Offset(10_000))
    assert observer.told == [100_000]
