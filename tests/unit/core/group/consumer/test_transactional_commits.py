"""Who may commit offsets to a consumer group in a transaction (KIP-447 over KIP-848)."""

from __future__ import annotations

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, ConsumerDriver
from tests.unit.core.group.painted_topics import PaintedTopics
from tests.unit.core.group.transactions import commit_in_transaction as commit

from klamm.protocol.errors import ErrorCode


def test_member_commits_at_its_epoch() -> None:
    """Producers know generations only, so whatever is wrong with the epoch is an ILLEGAL_GENERATION to them."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert commit(driver, "a", 2) is ErrorCode.NONE
    assert commit(driver, "a", 3) is ErrorCode.ILLEGAL_GENERATION
    assert commit(driver, "a", 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(driver, "ghost", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_names_no_member_is_not_asked() -> None:
    """Versions before 3 can't; but a member without an epoch is none."""
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
    assert commit(driver, "a", 2, partition=7, metadata="x" * 5000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
