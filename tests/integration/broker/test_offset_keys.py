"""The broker's configuration keys for committed offsets, and their effects on the log and on groups."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.support.wire import Wire

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.compression import Compression
from klamm.protocol.coordinator_records import decode_group_record
from klamm.protocol.errors import ErrorCode
from klamm.protocol.record_batch import BatchHeader, iterate_batches
from klamm.protocol.records import decode_batch
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import ApiVersionsResponse
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.testing import Broker

TOPIC = "events"
PARTITIONS = 50
VERSION = 9
PATIENCE_S = 30


@contextlib.contextmanager
def broker_with(**keys: str) -> Iterator[tuple[Broker, Wire]]:
    """Runs a broker with the given keys (underscores for dots) and a topic; gives the broker and a connection."""
    with (
        Broker(config={key.replace("_", "."): text for key, text in keys.items()}) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        created = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert created.topics[0].error_code == ErrorCode.NONE
        yield broker, wire


def request_of(group: str, offsets: list[int]) -> OffsetCommitRequest:
    """Returns a commit of the topic's first partitions, without a member."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index, offset in enumerate(offsets)
    ]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)])


def codes_of(answer: OffsetCommitResponse) -> set[ErrorCode]:
    """Returns the error codes of all partitions in the response."""
    return {ErrorCode(partition.error_code) for topic in answer.topics for partition in topic.partitions}


def commit(wire: Wire, group: str, offsets: list[int]) -> None:
    """Commits the offsets as soon as the group has a coordinator that accepts them."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        wire.call(FindCoordinatorResponse, 4, FindCoordinatorRequest(coordinator_keys=[group]))
        codes = codes_of(wire.call(OffsetCommitResponse, VERSION, request_of(group, offsets)))
        if not any(code.retriable for code in codes):
            break
    assert codes == {ErrorCode.NONE}


def commits_in_log(broker: Broker) -> list[tuple[BatchHeader, Counter[str]]]:
    """Returns each batch of `__consumer_offsets` on the disk that has commits, with the number of commits per group."""
    log = (broker.data_dir / "__consumer_offsets-0" / f"{0:020d}.log").read_bytes()
    found = []
    for position, header in iterate_batches(log):
        keys = [
            decoded[0]
            for record in decode_batch(log[position : position + header.size_bytes])
            if (decoded := decode_group_record(record.key or b"", record.value)) is not None
        ]
        commits = Counter(key.group for key in keys if isinstance(key, OffsetCommitKey))
        if commits:
            found.append((header, commits))
    return found


@pytest.mark.parametrize("codec", list(Compression))
def test_large_commits_are_compressed_as_the_offsets_topic_is_to_be(codec: Compression) -> None:
    """`offsets.topic.compression.codec` (the number of a codec) applies to large commits; a small batch is not
    compressed."""
    with broker_with(offsets_topic_compression_codec=str(codec.value)) as (broker, wire):
        commit(wire, "few", [1])
        commit(wire, "many", list(range(PARTITIONS)))
        few, many = commits_in_log(broker)
    assert (few[0].compression, few[1]) == (Compression.NONE, {"few": 1})
    assert (many[0].compression, many[1]) == (codec, {"many": PARTITIONS})


def test_commits_are_not_compressed_unless_it_is_said() -> None:
    """Commits are not compressed by default, as in Kafka, whose default is 0."""
    with broker_with() as (broker, wire):
        commit(wire, "many", list(range(PARTITIONS)))
        ((header, commits),) = commits_in_log(broker)
    assert (header.compression, commits) == (Compression.NONE, {"many": PARTITIONS})


@pytest.mark.parametrize(("linger_ms", "is_merged"), [("1000", True), ("0", False)])
def test_commits_of_a_burst_are_merged_while_they_linger(linger_ms: str, is_merged: bool) -> None:
    """With `klamm.offsets.commit.linger.ms` every commit of a burst is answered, and fewer commits are written. With 0
    each commit is written."""
    group, count = f"group-{uuid.uuid4().hex[:12]}", 20
    with broker_with(klamm_offsets_commit_linger_ms=linger_ms) as (broker, wire), contextlib.ExitStack() as stack:
        commit(wire, group, [0])  # The commit that creates the group does not linger.
        wires = [stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(count)]
        for offset, each in enumerate(wires, 1):
            each.send(ApiKey.OFFSET_COMMIT, VERSION, encode(request_of(group, [offset]), VERSION))
            # Waits until the broker has read this commit, so that without a linger time it writes each commit alone.
            wire.call(ApiVersionsResponse, 3, ApiVersionsRequest())
        for each in wires:
            answer, _ = decode(OffsetCommitResponse, VERSION, each.receive(ApiKey.OFFSET_COMMIT, VERSION))
            assert codes_of(answer) == {ErrorCode.NONE}
        written = sum(commits[group] for _, commits in commits_in_log(broker)) - 1
    assert 0 < written < count if is_merged else written == count


def test_ephemeral_groups_are_gone_after_their_time() -> None:
    """Groups that match `klamm.group.ephemeral.patterns` are removed after `klamm.group.ephemeral.retention.ms`; other
    groups stay."""
    with broker_with(klamm_group_ephemeral_patterns="console-*,test-?", klamm_group_ephemeral_retention_ms="500") as (
        _,
        wire,
    ):
        for group in ("console-1", "test-1", "test-11", "orders"):
            commit(wire, group, [1])
        deadline = time.monotonic() + PATIENCE_S
        there = {"console-1"}
        while there & {"console-1", "test-1"} and time.monotonic() < deadline:
            listed = wire.call(ListGroupsResponse, 5, ListGroupsRequest())
            there = {group.group_id for group in listed.groups}
            time.sleep(0.05)
    assert there == {"test-11", "orders"}
