"""Who may commit offsets to a consumer group in a transaction (KIP-447 over KIP-848)."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver
from tests.unit.core.group.painted_topics import PaintedTopics

from klamm.core.coordinator.contract import ClientContext, Result, Ticket
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.txn_offset_commit_response import TxnOffsetCommitResponse
from klamm.protocol.types import Millis


def commit(
    driver: ConsumerDriver, member_id: str, epoch: int, *, partition: int = 0, topic: str = EVENTS, metadata: str = ""
) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        group_id=GROUP,
        producer_id=1,
        member_id=member_id,
        generation_id=epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[TxnOffsetCommitRequestPartition(partition_index=partition, committed_metadata=metadata)],
            )
        ],
    )

    def handle(
        shard: GroupShard, request: TxnOffsetCommitRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        return shard.handle_txn_offset_commit(request, context, ticket, now, 1)

    answer = driver.answers[driver.ask(handle, request, 3)]
    if isinstance(answer, ErrorCode):
        return answer
    return ErrorCode(cast(TxnOffsetCommitResponse, answer).topics[0].partitions[0].error_code)


def test_member_commits_at_its_epoch() -> None:
    """Producers know generations only, so whatever is wrong with the epoch is an ILLEGAL_GENERATION to them."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert commit(driver, "a", 2) is ErrorCode.none
    assert commit(driver, "a", 3) is ErrorCode.illegal_generation
    assert commit(driver, "a", 1) is ErrorCode.illegal_generation
    assert commit(driver, "ghost", 2) is ErrorCode.unknown_member_id


def test_who_names_no_member_is_not_asked() -> None:
    """Versions before 3 can't; but a member without an epoch is none."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert commit(driver, "", -1) is ErrorCode.none
    assert commit(driver, "a", -1) is ErrorCode.illegal_generation


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [
        (EVENTS, 5, ErrorCode.none),
        (EVENTS, 7, ErrorCode.illegal_generation),
        ("gone", 0, ErrorCode.illegal_generation),
    ],
)
def test_late_commit_is_taken_for_what_the_member_has_had_since(
    topic: str, partition: int, expected: ErrorCode
) -> None:
    """KIP-1251: its epoch has risen, and it has not heard of that yet; what it got later it can't have read."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8))
    driver.beat("a", 2)
    assert driver.member("a").member_epoch == 3
    assert commit(driver, "a", 2, partition=partition, topic=topic) is expected


def test_too_much_metadata_is_told_before_an_old_epoch_is_held_against_the_partition() -> None:
    """The partition gets its own code, and the request is not refused for it."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8))
    driver.beat("a", 2)
    assert commit(driver, "a", 2, partition=7, metadata="x" * 5000) is ErrorCode.offset_metadata_too_large
