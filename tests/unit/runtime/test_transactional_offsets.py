"""Tests offsets that a transaction commits: the coordinator writes them, and they are unstable until the marker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.coordinator_world import GROUP, P0, CoordinatorWorld

from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.record_batch import read_batch_header
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.write_txn_markers_request import WritableTxnMarker
from klamm.runtime.answers import Answer

PRODUCER = 1000


def commit(
    world: CoordinatorWorld,
    offset: int,
    *,
    producer: int = PRODUCER,
    member: str = "",
    generation: int = -1,
    metadata: str | None = "",
    group: str = GROUP,
) -> Answer[Any]:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata, committed_leader_epoch=4
    )
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group,
        producer_id=producer,
        producer_epoch=0,
        member_id=member,
        generation_id=generation,
        topics=[TxnOffsetCommitRequestTopic(name="events", partitions=[partition])],
    )
    return world.coordinator.txn_offset_commit(request, world.client(3), 1)


def commit_code(world: CoordinatorWorld, offset: int, **how: Any) -> ErrorCode:
    return ErrorCode(world.now(commit(world, offset, **how)).topics[0].partitions[0].error_code)


def mark(world: CoordinatorWorld, *, committed: bool, producer: int = PRODUCER, epoch: int = 0) -> Answer[Any]:
    marker = WritableTxnMarker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=committed,
        coordinator_epoch=7,
        transaction_version=1,
    )
    return world.coordinator.end_transaction(P0, marker)


def fetch_stable(world: CoordinatorWorld) -> tuple[int, int]:
    """Fetches the offset as a consumer of committed records does; returns the error code and the offset."""
    group = OffsetFetchRequestGroup(
        group_id=GROUP, topics=[OffsetFetchRequestTopics(name="events", partition_indexes=[0])]
    )
    answer = world.now(world.coordinator.offset_fetch(group, True, world.client(8)))
    partition = answer.topics[0].partitions[0]
    return partition.error_code, partition.committed_offset


@pytest.mark.parametrize(("committed", "expected"), [(True, 9), (False, 3)])
def test_offsets_count_when_their_transaction_is_committed(committed: bool, expected: int) -> None:
    """I12: offsets take effect when their transaction commits, and not if it aborts. Until then, fetches that require
    stable offsets are refused (KIP-447)."""
    world = CoordinatorWorld()
    assert world.commit_code(3) is ErrorCode.NONE
    assert commit_code(world, 9) is ErrorCode.NONE
    assert world.fetched() == 3
    assert fetch_stable(world) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert world.now(mark(world, committed=committed)).error_code == ErrorCode.NONE
    assert fetch_stable(world) == (ErrorCode.NONE, expected)
    assert world.restart().fetched() == expected


def test_the_log_says_whose_the_offsets_are() -> None:
    """The log has a transactional batch of the producer and a control batch for the marker, as Kafka writes them."""
    world = CoordinatorWorld()
    commit_code(world, 9)
    world.now(mark(world, committed=True))
    headers = [read_batch_header(batch) for _, _, batch in world.log.partition(P0).batches]
    assert [(each.producer_id, each.producer_epoch, each.is_transactional, each.is_control) for each in headers] == [
        (PRODUCER, 0, True, False),
        (PRODUCER, 0, True, True),
    ]
    assert headers[0].base_sequence == 0


def test_open_transactions_are_read_back() -> None:
    """A coordinator that takes over knows the unstable offsets, and commits them when the marker comes."""
    world = CoordinatorWorld()
    commit_code(world, 9)
    world = world.restart()
    assert fetch_stable(world)[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.now(mark(world, committed=True))
    assert fetch_stable(world) == (ErrorCode.NONE, 9)


def test_commits_that_say_nothing_new_are_written_in_a_transaction() -> None:
    """A transaction writes an offset even if it is committed already, because another commit may change it before the
    marker, and then the order in the log counts."""
    world = CoordinatorWorld(linger_ms=50)
    world.commit(9)
    world.timers.advance(100)
    commit_code(world, 9)
    world.commit(12)
    appends = world.log.appends
    commit_code(world, 9)
    assert world.log.appends == appends + 2, (
        "what lingered went first, and the transaction's own batch followed at once"
    )
    world.now(mark(world, committed=True))
    assert world.fetched() == 9


def test_a_zombie_is_fenced_by_its_generation() -> None:
    """KIP-447: a commit of an old generation or an unknown member is refused, because another member does its work."""
    world = CoordinatorWorld()
    member, _ = world.stable_group()
    assert commit_code(world, 1, member=member, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(world, 1, member="ghost", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(world, 1, member=member, generation=1) is ErrorCode.NONE
    assert commit_code(world, 2) is ErrorCode.NONE, "older producers say nothing of their member"


def test_a_rebalance_holds_up_no_transaction() -> None:
    """Unlike other commits, a transactional one is accepted from a member that has joined and has no assignment yet."""
    world = CoordinatorWorld()
    member = world.now(world.join()).member_id
    world.join(member)
    world.timers.advance(1)
    assert commit_code(world, 1, member=member, generation=1) is ErrorCode.NONE


def test_a_group_that_is_not_known_is_a_simple_one() -> None:
    """A transactional commit to an unknown group creates a simple group, but is refused if it has a generation."""
    world = CoordinatorWorld()
    assert commit_code(world, 1, generation=3, member="m") is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(world, 1) is ErrorCode.NONE
    assert GROUP in world.shard().classic_groups.store.groups


def test_metadata_has_its_limit() -> None:
    """An offset whose metadata is too large is refused, and nothing is written for it."""
    world = CoordinatorWorld(config=GroupCoordinatorConfig(offset_metadata_max_bytes=3))
    assert commit_code(world, 1, metadata="four") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.log.appends == 0
    assert commit_code(world, 1, metadata=None) is ErrorCode.NONE


def test_what_the_log_refuses_changes_nothing() -> None:
    """If the log refuses an offset or a marker (unknown transaction, outdated marker), the state is unchanged and the
    client gets the log's error code."""
    world = CoordinatorWorld()
    world.log.append_error = ErrorCode.INVALID_TXN_STATE
    assert commit_code(world, 1) is ErrorCode.INVALID_TXN_STATE
    world.log.append_error = None
    commit_code(world, 1)
    world.log.append_error = ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.now(mark(world, committed=True)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fetch_stable(world)[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_marker_waits_until_it_is_committed() -> None:
    """A marker is answered when it is committed, because the transaction coordinator then forgets the partition."""
    world = CoordinatorWorld()
    commit_code(world, 1)
    world.log.holds_high_watermark = True
    answer = mark(world, committed=True)
    assert world.is_waiting(answer)
    world.log.commit(P0)
    assert world.now(answer).error_code == ErrorCode.NONE


def test_a_partition_that_is_not_loaded_takes_no_marker() -> None:
    """A partition that is not led answers a marker with NOT_LEADER_OR_FOLLOWER, so that it is sent again."""
    world = CoordinatorWorld()
    world.coordinator.on_resignation(P0)
    assert world.now(mark(world, committed=True)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert commit_code(world, 1) is ErrorCode.NOT_COORDINATOR
    world.coordinator.stop()
    assert commit_code(world, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 50), st.just(0)),
        st.tuples(st.just("in transaction"), st.integers(0, 50), st.integers(1, 3)),
        st.tuples(st.sampled_from(["end", "abort"]), st.just(0), st.integers(1, 3)),
    ),
    max_size=20,
)


@given(_STEPS)
def test_memory_is_what_the_log_says(steps: list[tuple[str, int, int]]) -> None:
    """I17: after any order of commits, transactions and markers, a fetch gives the last record that took effect. A
    replay of the log gives the same state."""
    world = CoordinatorWorld()
    expected: tuple[int, int] | None = None
    open_offsets: dict[int, tuple[int, int]] = {}
    for place, (kind, offset, producer) in enumerate(steps):
        if kind == "commit":
            world.now(world.commit(offset))
            expected = (place, offset)
        elif kind == "in transaction":
            assert commit_code(world, offset, producer=producer) is ErrorCode.NONE
            open_offsets[producer] = (place, offset)
        else:
            world.now(mark(world, committed=kind == "end", producer=producer))
            pending = open_offsets.pop(producer, None)
            if kind == "end" and pending is not None and (expected is None or pending[0] > expected[0]):
                expected = pending
    assert world.fetched() == (-1 if expected is None else expected[1])
    store = world.shard().store
    assert world.restart().shard().store == store
