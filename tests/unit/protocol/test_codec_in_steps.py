"""Tests encoding and decoding in short steps, for messages of any size, and freeing messages in steps.

`test_codec.py` compares the results with those of the codec that works in one step.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from tests.support.steps import finish

from klamm.protocol.codec import encode
from klamm.protocol.codec_in_steps import MAXIMUM_ELEMENTS, decode_in_steps, dismantle, encode_in_steps, is_small
from klamm.protocol.compile_decoder import LARGEST_BYTES_FIELD, STEP_BYTES, STEP_NUMBERS
from klamm.protocol.compile_encoder import STEP_ELEMENTS
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.schema.create_topics_request import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.describe_producers_request import DescribeProducersRequest, TopicRequest
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Subtopology, Topology
from klamm.protocol.varint import encode_unsigned_varint

TOPICS = 1000
PARTITIONS = 4


def commit() -> OffsetCommitRequest:
    """Returns a request that commits four thousand offsets."""
    return OffsetCommitRequest(
        group_id="group",
        topics=[
            OffsetCommitRequestTopic(
                name=f"topic-{number}",
                partitions=[OffsetCommitRequestPartition(partition_index=index) for index in range(PARTITIONS)],
            )
            for number in range(TOPICS)
        ],
    )


def drive(steps: Generator[Any, None, Any]) -> tuple[Any, int]:
    """Runs all steps; returns their result and the number of steps."""
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, taken
        taken += 1


def test_step_of_decoding_reads_so_many_bytes() -> None:
    """A decoding step reads a limited number of bytes, so the number of steps grows with the message size."""
    wire = encode(commit(), 9)
    message, steps = drive(decode_in_steps(OffsetCommitRequest, 9, memoryview(wire)))
    assert message == commit()
    assert steps >= len(wire) // (STEP_BYTES + 200)


def test_step_of_encoding_writes_so_many_elements() -> None:
    """An encoding step writes a limited number of topics and partitions; the parts join to the usual bytes."""
    parts, steps = drive(encode_in_steps(commit(), 9))
    assert b"".join(parts) == encode(commit(), 9)
    assert steps >= TOPICS * (PARTITIONS + 1) // STEP_ELEMENTS


def test_numbers_of_one_array_are_read_and_written_in_steps() -> None:
    """A long array of numbers takes several steps; the codec that works in one step handles it in one call."""
    count = 10 * STEP_NUMBERS
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(range(count)))])
    wire = encode(request, 0)
    message, steps = drive(decode_in_steps(DescribeProducersRequest, 0, memoryview(wire)))
    assert message == request
    assert steps >= 10
    parts, steps = drive(encode_in_steps(request, 0))
    assert b"".join(parts) == wire
    assert steps >= 10


def test_what_was_read_so_far_is_seen_after_each_step() -> None:
    """Each decoding step yields the partly decoded message, so it can be freed in steps when its client disconnects."""
    steps = decode_in_steps(OffsetCommitRequest, 9, memoryview(encode(commit(), 9)))
    first = next(steps)
    assert 0 < len(first.topics) < TOPICS
    next(steps)
    assert first.topics == commit().topics[: len(first.topics)]


@pytest.mark.parametrize("above", [0, 1])
def test_arrays_have_so_many_elements_together(above: int) -> None:
    """One limit applies to the elements of all arrays of a message together, including nested arrays."""
    indexes = list(range(MAXIMUM_ELEMENTS // 2 - 1))
    topics = [
        TopicRequest(name="a", partition_indexes=indexes),
        TopicRequest(name="b", partition_indexes=[*indexes, 7][: len(indexes) + above]),
    ]
    wire = memoryview(encode(DescribeProducersRequest(topics=topics), 0))
    steps = decode_in_steps(DescribeProducersRequest, 0, wire)
    if above:
        with pytest.raises(MalformedMessage, match=f"more than {MAXIMUM_ELEMENTS} elements"):
            drive(steps)
    else:
        assert drive(steps)[0].topics == topics


def test_unknown_tagged_fields_are_read_in_steps() -> None:
    """Unknown tagged fields are read in steps, because each takes only two bytes and a message can have very many."""
    count = 100_000
    wire = encode(FindCoordinatorRequest(coordinator_keys=["key"]), 4)
    assert wire.endswith(b"\x00")
    tags = encode_unsigned_varint(count) + b"\x63\x00" * count
    message, steps = drive(decode_in_steps(FindCoordinatorRequest, 4, memoryview(wire[:-1] + tags)))
    assert message == FindCoordinatorRequest(coordinator_keys=["key"])
    assert steps >= 2 * count // (STEP_BYTES + 10)


def test_bytes_that_take_long_to_copy_are_refused() -> None:
    """A bytes field that takes long to copy is refused; no group has metadata of this size."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(LARGEST_BYTES_FIELD + 1))
    wire = memoryview(encode(JoinGroupRequest(protocols=[protocol]), 5))
    with pytest.raises(MalformedMessage, match="metadata is too large"):
        drive(decode_in_steps(JoinGroupRequest, 5, wire))


def test_large_part_is_not_copied() -> None:
    """A large bytes field becomes a part of its own without a copy."""
    metadata = bytes(200_000)
    request = JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)])
    parts, _ = drive(encode_in_steps(request, 5))
    assert any(part is metadata for part in parts)
    assert b"".join(parts) == encode(request, 5)


def test_message_is_freed_in_steps() -> None:
    """`dismantle` empties the arrays of a message in steps, except arrays that other code still references."""
    messages: list[Message] = [commit()]
    topics = messages[0].topics  # type: ignore[attr-defined]
    work = dismantle(messages.pop())
    _, steps = drive(work)
    assert steps == 0  # this test still references `topics`
    assert len(topics) == TOPICS
    message = commit()
    seen = message.topics[:1]
    messages = [message]
    del message
    _, steps = drive(dismantle(messages.pop()))
    assert steps >= TOPICS // 256
    assert len(seen[0].partitions) == PARTITIONS


def test_message_that_is_used_elsewhere_stays() -> None:
    """`dismantle` does not change a message that other code, such as a coordinator, still references."""
    kept = commit()
    finish(dismantle(kept))
    assert kept == commit()


def test_elements_of_elements_are_freed_in_steps() -> None:
    """Nested elements are freed in steps, because few elements with many children take as long as many small ones."""
    count = 2000
    messages: list[Message] = [
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(range(count)))])
    ]
    indexes: list[list[int]] = [messages[0].topics[0].partition_indexes]  # type: ignore[attr-defined]
    seen = indexes.pop()
    finish(dismantle(messages.pop()))
    assert len(seen) == count, "it is used here"
    del seen
    messages.append(DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(range(count)))]))
    assert drive(dismantle(messages.pop()))[1] >= count // 256


def test_what_lies_two_levels_down_is_freed_in_steps() -> None:
    """Objects two levels down are freed in steps, even if a single element holds all of them."""
    count = 20_000
    topics = [CreatableTopic(name="t", assignments=[CreatableReplicaAssignment(broker_ids=list(range(count)))])]
    assert not is_small(topics)
    messages: list[Message] = [CreateTopicsRequest(topics=topics)]
    del topics
    assert drive(dismantle(messages.pop()))[1] >= count // 256


def test_structs_are_freed_in_steps() -> None:
    """A struct is freed in steps, because its arrays may be as long as those of the message."""
    count = 20_000
    topology = Topology(subtopologies=[Subtopology() for _ in range(count)])
    messages: list[Message] = [StreamsGroupHeartbeatRequest(topology=topology)]
    del topology
    assert drive(dismantle(messages.pop()))[1] >= count // 256


def test_dictionaries_of_dictionaries_are_freed_in_steps() -> None:
    """Nested dictionaries, such as request handlers build by topic and partition, are freed in steps."""
    things: list[object] = [{topic: dict.fromkeys(range(100)) for topic in range(100)}]
    assert not is_small(things[0])
    assert drive(dismantle(things.pop()))[1] >= 100 * 100 // 512


def test_what_is_small_is_told_from_what_is_not() -> None:
    """`is_small` judges an object by its size and the sizes of its elements; a message never counts as small."""
    assert is_small([1, 2, 3])
    assert is_small({"a": [1], "b": {2}})
    assert is_small(None)
    assert not is_small(list(range(1000)))
    assert not is_small({"a": dict.fromkeys(range(1000))})
    assert not is_small(commit())
