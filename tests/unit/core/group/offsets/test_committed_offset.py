"""Tests of committed offsets that are kept as bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.core.group.offsets.committed_offset import NO_OFFSETS, CommittedOffset, PartitionOffsets
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

P0, P1 = PartitionIndex(0), PartitionIndex(1)

longs = st.integers(-(2**63), 2**63 - 1)
committed_offsets = st.builds(
    CommittedOffset,
    offset=longs.map(Offset),
    leader_epoch=st.integers(-(2**31), 2**31 - 1).map(LeaderEpoch),
    metadata=st.text(),
    commit_timestamp_ms=longs.map(Millis),
    expire_timestamp_ms=st.none() | st.integers(0, 2**63 - 1).map(Millis),
    topic_id=st.binary(min_size=16, max_size=16).map(TopicId),
    record_offset=st.integers(0, 2**63 - 1).map(Offset),
)


def committed(**changes: object) -> CommittedOffset:
    base = CommittedOffset(Offset(5), LeaderEpoch(2), "note", Millis(1000), None, TopicId(ZERO_UUID), Offset(77))
    return base._replace(**changes)  # type: ignore[arg-type]


@given(committed_offsets)
def test_nothing_is_lost(offset: CommittedOffset) -> None:
    """Every offset that a record can hold is returned unchanged."""
    offsets = PartitionOffsets()
    offsets[P0] = offset
    assert offsets[P0] == offsets.get(P0) == offset
    assert dict(offsets.items()) == {P0: offset}
    assert list(offsets.positions()) == [(P0, offset.offset)]


def test_it_is_a_mapping() -> None:
    """`PartitionOffsets` is a mapping by partition, and `get` returns None for a partition without an offset."""
    offsets = PartitionOffsets()
    offsets[P0], offsets[P1] = committed(), committed(offset=6)
    assert list(offsets) == [P0, P1]
    assert P1 in offsets
    del offsets[P1]
    assert offsets.get(P1) is None
    assert len(offsets) == 1
    assert repr(offsets) == f"PartitionOffsets({{0: {committed()!r}}})"
    assert len(NO_OFFSETS) == 0


def test_equal_offsets_are_equal() -> None:
    """Two offset maps with equal content are equal, so that two shards that replayed the same log can be compared."""
    one, other = PartitionOffsets(), PartitionOffsets()
    one[P0], other[P0] = committed(), committed()
    assert one == other
    other[P0] = committed(record_offset=78)
    assert one != other
    assert one != {P0: committed()}


def test_says_compares_everything_that_matters() -> None:
    """`says` compares offset, leader epoch, topic id, metadata, expiry time and age, but not the record's offset."""
    offsets = PartitionOffsets()
    offsets[P0] = committed()
    assert offsets.says(P0, 5, 2, ZERO_UUID, "note", 1000)
    assert not offsets.says(P0, 5, 2, ZERO_UUID, "note", 1001)
    assert not offsets.says(P0, 6, 2, ZERO_UUID, "note", 0)
    assert not offsets.says(P0, 5, 3, ZERO_UUID, "note", 0)
    assert not offsets.says(P0, 5, 2, bytes([1]) * 16, "note", 0)
    assert not offsets.says(P0, 5, 2, ZERO_UUID, "not", 0)
    assert not offsets.says(P0, 5, 2, ZERO_UUID, "", 0)
    assert not offsets.says(P1, 5, 2, ZERO_UUID, "note", 0)
    offsets[P0] = committed(expire_timestamp_ms=Millis(2000))
    assert not offsets.says(P0, 5, 2, ZERO_UUID, "note", 0)
