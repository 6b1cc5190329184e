"""Tests of transactional offset commits to a consumer group (KIP-447 over KIP-848)."""

from __future__ import annotations

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, ConsumerDriver
from tests.unit.core.group.painted_topics import PaintedTopics
from tests.unit.core.group.transactions import commit_in_transaction as commit

from klamm.protocol.errors import ErrorCode


def test_member_commits_at_its_epoch() -> None:
    """A wrong epoch in a transactional commit gets ILLEGAL_GENERATION, because producers know generations only."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert commit(driver, "a", 2) is ErrorCode.NONE
    assert commit(driver, "a", 3) is ErrorCode.ILLEGAL_GENERATION
    assert commit(driver, "a", 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(driver, "ghost", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_names_no_member_is_not_asked() -> None:
    """A commit without a member id is not checked (versions before 3); a member id with epoch -1 is refused."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert commit(driver, "", -1) is ErrorCode.NONE
    assert commit(driver, "a", -1) is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [
        (EVENTS, 5, ErrorCode.NONE),
        (EVENTS, 7, ErrorCode.ILLEGAL_GENERATION),
        ("gone", 0, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_late_commit_is_taken_for_what_the_member_has_had_since(
    topic: str, partition: int, expected: ErrorCode
) -> None:
    """A commit with the previous epoch succeeds only for partitions that the member had in that epoch (KIP-1251)."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8))
    driver.beat("a", 2)
    assert driver.member("a").member_epoch == 3
    assert commit(driver, "a", 2, partition=partition, topic=topic) is expected


def test_too_much_metadata_is_told_before_an_old_epoch_is_held_against_the_partition() -> None:
    """A partition with too much metadata gets OFFSET_METADATA_TOO_LARGE, also if its epoch is stale."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8))
    driver.beat("a", 2)
    assert commit(driver, "a", 2, partition=7, metadata="x" * 5000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
