"""Tests of how a transactional offset commit marks a classic member as having committed (KIP-447)."""

from __future__ import annotations

import pytest
from tests.unit.core.group.shard_driver import ShardDriver
from tests.unit.core.group.transactions import commit_in_transaction

from klamm.core.group.classic.classic_events import is_crash_looping
from klamm.protocol.errors import ErrorCode


def test_member_that_commits_in_a_transaction_has_committed() -> None:
    """A transactional commit marks the member as having committed, whether or not the transaction commits later."""
    driver = ShardDriver()
    ids = driver.stable_group()
    one, other = (driver.group().members[member_id] for member_id in ids)
    assert commit_in_transaction(driver, ids[0], 1) is ErrorCode.NONE
    assert one.has_committed
    assert not other.has_committed


def test_commit_that_is_refused_or_names_no_member_is_nobodys() -> None:
    """A transactional commit that fails or names no member (versions before 3) marks no member as having committed."""
    driver = ShardDriver()
    (member_id,) = driver.stable_group(size=1)
    assert commit_in_transaction(driver, "", -1) is ErrorCode.NONE
    assert commit_in_transaction(driver, member_id, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(driver, member_id, 1, metadata="x" * 5000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    driver.append_error = ErrorCode.INVALID_PRODUCER_EPOCH
    assert commit_in_transaction(driver, member_id, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not driver.group().members[member_id].has_committed


@pytest.mark.parametrize("commits", [True, False])
def test_members_that_commit_in_transactions_and_die_are_in_no_crash_loop(commits: bool) -> None:
    """Members that commit in a transaction before each death are in no crash loop; members without commits are."""
    driver = ShardDriver()
    for _ in range(4):
        member_id = driver.member_id()
        driver.join(member_id)
        driver.advance(driver.config.initial_rebalance_delay_ms * 2)
        generation = driver.group().generation
        driver.sync(member_id, generation, driver.shares([member_id]))
        member = driver.group().members[member_id]
        if commits:
            assert commit_in_transaction(driver, member_id, generation) is ErrorCode.NONE
        is_looping = is_crash_looping(driver.group(), member, driver.now)
        driver.advance(2 * member.session_timeout_ms)
        assert not driver.group().members
    assert is_looping is not commits
