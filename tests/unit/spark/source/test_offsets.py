"""Tests that offsets are written as Spark's Kafka source writes them, and limits are divided as Spark divides them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.errors import OptionError
from klamm.spark.source.offsets import (
    PartitionOffsets,
    limit_rows,
    offsets_from_json,
    offsets_to_json,
    parse_assignment,
    parse_offsets,
)


def tp(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, PartitionIndex(partition))


_offsets = st.dictionaries(
    st.builds(tp, st.sampled_from(["a", "b", "B", "a.b"]), st.integers(min_value=0, max_value=20)),
    st.integers(min_value=0, max_value=2**62).map(Offset),
    max_size=12,
)


def test_keys_are_sorted_and_partitions_by_number() -> None:
    """Keys are sorted, with partitions by number; Spark compares offsets as text, so equal offsets need equal texts."""
    offsets = {tp("b", 0): Offset(1), tp("a", 10): Offset(2), tp("a", 2): Offset(3)}

    assert json.dumps(offsets_to_json(offsets), separators=(",", ":")) == '{"a":{"2":3,"10":2},"b":{"0":1}}'


@given(_offsets)
def test_what_is_written_is_read_again(offsets: PartitionOffsets) -> None:
    """Offsets that are written to a checkpoint are read back unchanged."""
    assert offsets_from_json(json.loads(json.dumps(offsets_to_json(offsets)))) == offsets


@pytest.mark.parametrize(
    "stored",
    ['{"logOffset":3}', '{"seqNum":1,"sourceVersion":1}', "5", "null", "[1]", '{"t":{"x":1}}', '{"t":{"0":"1"}}'],
)
def test_offsets_of_another_source_are_named(stored: str) -> None:
    """The offsets of another kind of source in a checkpoint cause an error that says so."""
    with pytest.raises(OptionError, match=r"checkpointLocation.*no offsets of a Kafka source"):
        offsets_from_json(json.loads(stored))


def test_words_for_the_ends_of_the_log_are_kept_as_numbers() -> None:
    """The numbers -1 (latest) and -2 (earliest) are accepted as offsets, as in Spark."""
    assert parse_offsets("startingOffsets", '{"t":{"0":23,"1":-1,"2":-2}}') == {
        tp("t", 0): 23,
        tp("t", 1): -1,
        tp("t", 2): -2,
    }


@pytest.mark.parametrize(
    "text",
    [
        "newest",
        "[]",
        '{"t":5}',
        '{"t":{"x":1}}',
        '{"t":{"0":"1"}}',
        '{"t":{"0":true}}',
        '{"t":{"0":-3}}',
        '{"t":{"0":1.5}}',
    ],
)
def test_what_is_no_offset_is_refused(text: str) -> None:
    """An invalid offset is refused with an error that names the option."""
    with pytest.raises(OptionError, match="startingOffsets"):
        parse_offsets("startingOffsets", text)


def test_an_assignment_lists_partitions() -> None:
    """An assignment gives each partition once, ordered by topic and number."""
    assert parse_assignment('{"b":[1],"a":[2,0,2]}') == (tp("a", 0), tp("a", 2), tp("b", 1))


@pytest.mark.parametrize("text", ["t", '{"t":0}', '{"t":[-1]}', '{"t":["0"]}', "{}"])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    """An invalid assignment is refused with an error that names the option."""
    with pytest.raises(OptionError, match="assign"):
        parse_assignment(text)


def test_each_partition_gets_a_share_of_the_limit() -> None:
    """Each partition gets a share of the limit in proportion to its backlog, and at least one offset."""
    start = {tp("t", 0): Offset(0), tp("t", 1): Offset(100), tp("t", 2): Offset(0)}
    latest = {tp("t", 0): Offset(900), tp("t", 1): Offset(190), tp("t", 2): Offset(1)}

    assert limit_rows(99, start, latest) == {tp("t", 0): 89, tp("t", 1): 108, tp("t", 2): 1}


@given(_offsets, st.lists(st.integers(min_value=0, max_value=1000), min_size=12, max_size=12), st.integers(1, 500))
def test_a_limit_makes_progress_and_never_passes_the_end(
    start: PartitionOffsets, sizes: list[int], maximum: int
) -> None:
    """With a limit, every partition with a backlog advances, and none passes its end. The sum exceeds the limit by at
    most one offset for each partition."""
    latest = {key: Offset(offset + size) for (key, offset), size in zip(start.items(), sizes, strict=False)}

    end = limit_rows(maximum, start, latest)

    assert all(start[key] < end[key] <= latest[key] or start[key] == latest[key] == end[key] for key in start)
    assert sum(end[key] - start[key] for key in start) <= maximum + len(start)


def test_partitions_without_a_known_start_are_left_alone() -> None:
    """A partition without a known start gets no share of the limit and keeps its end."""
    assert limit_rows(1, {}, {tp("t", 0): Offset(9)}) == {tp("t", 0): 9}
