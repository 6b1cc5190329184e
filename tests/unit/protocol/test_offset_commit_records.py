"""Tests that records of committed offsets have the same bytes from the hand-written as from the generated codec."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.protocol.coordinator_records import encode_record_key, encode_record_value
from klamm.protocol.message import ZERO_UUID, UnsupportedField
from klamm.protocol.offset_commit_records import (
    VALUE_VERSION,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue

longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)


@given(st.builds(OffsetCommitKey, group=st.text(), topic=st.text(), partition=ints))
def test_keys_are_the_same(key: OffsetCommitKey) -> None:
    """The hand-written codec encodes keys with any names as the generated codec does."""
    assert encode_offset_commit_key(key) == encode_record_key(key)


@given(
    st.builds(
        OffsetCommitValue,
        offset=longs,
        leader_epoch=ints,
        metadata=st.text(),
        commit_timestamp=longs,
        expire_timestamp=st.sampled_from([-1, 5]),
        topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
    )
)
@example(OffsetCommitValue(metadata="x" * 126))
@example(OffsetCommitValue(metadata="x" * 127))
@example(OffsetCommitValue(metadata="\u20ac" * 4096))
def test_values_are_the_same(value: OffsetCommitValue) -> None:
    """The hand-written codec encodes values, with and without metadata and topic id, as the generated codec does."""
    assert encode_offset_commit_value(value) == encode_record_value(value, VALUE_VERSION)


@pytest.mark.parametrize(
    "key", [OffsetCommitKey(group="g" * 32768), OffsetCommitKey(topic="\ud800"), OffsetCommitKey(partition=2**31)]
)
def test_key_that_cannot_travel_is_refused(key: OffsetCommitKey) -> None:
    """The hand-written codec refuses the keys that the generated codec refuses."""
    for encode in (encode_offset_commit_key, encode_record_key):
        with pytest.raises(UnsupportedField):
            encode(key)


@pytest.mark.parametrize("value", [OffsetCommitValue(offset=2**63), OffsetCommitValue(metadata="\ud800")])
def test_value_that_cannot_travel_is_refused(value: OffsetCommitValue) -> None:
    """The hand-written codec refuses the values that the generated codec refuses."""
    with pytest.raises(UnsupportedField):
        encode_offset_commit_value(value)
    with pytest.raises(UnsupportedField):
        encode_record_value(value, VALUE_VERSION)
