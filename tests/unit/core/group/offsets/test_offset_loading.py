"""Tests that the fast path for loading offsets gives the same state as the general codec."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.group_kinds import empty_store
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.offset_loading import OffsetLoader
from klamm.protocol.coordinator_records import decode_group_record, encode_record_key, encode_record_value
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import Offset, ProducerId

TOPIC_ID = bytes(range(16))

longs = st.integers(-(2**63), 2**63 - 1)
values = st.builds(
    OffsetCommitValue,
    offset=longs,
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=st.text(max_size=20) | st.text("x", min_size=100, max_size=200),
    commit_timestamp=longs,
    topic_id=st.sampled_from([ZERO_UUID, TOPIC_ID]),
)
keys = st.builds(
    OffsetCommitKey,
    group=st.sampled_from(["", "orders", "\u00fcber", "g" * 300]),
    topic=st.sampled_from(["", "events", "events.\u20ac"]),
    partition=st.integers(-1, 2),
)


def replay(records: Sequence[tuple[int, bytes, bytes | None]], *, by_the_short_way: bool) -> GroupStore:
    """Returns a store into which records (producer id, key, value) were replayed."""
    store = empty_store()
    loader = OffsetLoader(store)
    for offset, (producer, key, value) in enumerate(records):
        where = Offset(offset), ProducerId(producer)
        if by_the_short_way and loader.replay(*where, key, value):
            continue
        decoded = decode_group_record(key, value)
        assert decoded is not None
        store.replay(*where, CoordinatorRecord(*decoded, 0))
    return store


@given(keys, values, st.integers(0, 4))
@example(OffsetCommitKey(group="g", topic="t", partition=0), OffsetCommitValue(metadata="x" * 126), 4)
@example(OffsetCommitKey(group="g", topic="t", partition=0), OffsetCommitValue(metadata="x" * 127), 4)
def test_every_value_is_read_as_the_generated_codec_reads_it(
    key: OffsetCommitKey, value: OffsetCommitValue, version: int
) -> None:
    """The fast path gives the same state as the codec; it takes versions 3 and 4 with short ASCII metadata only."""
    if version < 4:
        value.topic_id = ZERO_UUID
    if version < 3:
        value.leader_epoch = -1
    record = -1, encode_record_key(key), encode_record_value(value, version)
    assert replay([record], by_the_short_way=True) == replay([record], by_the_short_way=False)
    took_it = OffsetLoader(empty_store()).replay(Offset(0), ProducerId(-1), *record[1:])
    is_plain = value.metadata.isascii() and (version == 3 or len(value.metadata) < 127)
    assert took_it is (version >= 3 and is_plain)


@given(keys, values, st.sampled_from([3, 4]), st.data())
def test_whatever_is_odd_is_left_to_the_codec(
    key: OffsetCommitKey, value: OffsetCommitValue, version: int, data: st.DataObject
) -> None:
    """For damaged bytes the fast path either gives the state of the codec, or leaves the store empty for the codec."""
    if version == 3:
        value.topic_id = ZERO_UUID
    both = bytearray(encode_record_key(key) + encode_record_value(value, version))
    split = len(encode_record_key(key))
    for _ in range(data.draw(st.integers(1, 3))):
        both[data.draw(st.integers(0, len(both) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(both)) | st.just(len(both)))
    odd_key, odd_value = bytes(both[:split]), bytes(both[split:cut])
    store = empty_store()
    if OffsetLoader(store).replay(Offset(0), ProducerId(-1), odd_key, odd_value):
        assert store == replay([(-1, odd_key, odd_value)], by_the_short_way=False)
    else:
        assert store == empty_store()


@given(
    st.lists(
        st.tuples(st.sampled_from([-1, -1, -1, 7, 8]), keys, st.none() | values)
        | st.tuples(
            st.just(-1),
            st.builds(GroupMetadataKey, group=st.sampled_from(["", "orders"])),
            st.none() | st.builds(GroupMetadataValue, generation=st.integers(0, 5), leader=st.none()),
        ),
        max_size=30,
    )
)
def test_both_ways_may_take_turns(
    records: list[tuple[int, OffsetCommitKey | GroupMetadataKey, OffsetCommitValue | GroupMetadataValue | None]],
) -> None:
    """Both paths give the same state for offsets, transactions, groups and tombstones in any order."""
    encoded = [
        (
            producer,
            encode_record_key(key),
            None if value is None else encode_record_value(value, 4 if isinstance(value, OffsetCommitValue) else 3),
        )
        for producer, key, value in records
    ]
    assert replay(encoded, by_the_short_way=True) == replay(encoded, by_the_short_way=False)


@pytest.mark.parametrize(
    "value", [b"", b"\x00", b"\x00\x04", b"\x00\x03" + bytes(12) + b"\x7f\xff", b"\x00\x09" + bytes(40)]
)
def test_what_is_no_value_is_the_codecs_to_refuse(value: bytes) -> None:
    """The fast path leaves a malformed value to the codec, whose error prevents the load of the partition."""
    key = encode_record_key(OffsetCommitKey(group="orders", topic="events", partition=0))
    assert not OffsetLoader(empty_store()).replay(Offset(0), ProducerId(-1), key, value)
    with pytest.raises(MalformedMessage):
        decode_group_record(key, value)


def test_topics_share_their_name() -> None:
    """Offsets of many groups share one string for the name of a topic, to save memory."""
    records = [
        (
            -1,
            encode_record_key(OffsetCommitKey(group=f"g{index}", topic="a topic that many read", partition=0)),
            encode_record_value(OffsetCommitValue(), 4),
        )
        for index in range(2)
    ]
    store = replay(records, by_the_short_way=True)
    one, other = (next(iter(store.offsets_of(f"g{index}"))) for index in range(2))
    assert one is other
