"""Tests that a follower copies the gaps of its leader's log, and keeps the batches behind them."""

from __future__ import annotations

import errno

import pytest
from tests.support.failing_calls import failing
from tests.support.log_folder import NOW_MS, LogFolder, read_bytes, sent

from klamm.protocol.errors import KafkaError
from klamm.protocol.types import LeaderEpoch, Offset


@pytest.mark.parametrize("ending", ["restart", "crash"])
@pytest.mark.parametrize("cleanup_policy", ["compact", "delete"])
def test_gaps_of_the_leader_are_copied(folder: LogFolder, ending: str, cleanup_policy: str) -> None:
    """I8: gaps are no lost batches, even if the topic is no longer compacted, and after a crash."""
    follower = folder.create(segment_bytes=250, cleanup_policy=frozenset({cleanup_policy}))
    records = b"".join(sent(offset, 0) for offset in (3, 4, 20, 21, 500, 1000))
    follower.following.append(records, NOW_MS)
    follower.flush()
    assert follower.segment_count > 1
    getattr(folder, ending)()
    assert (folder.log().log_end_offset, read_bytes(folder.log())) == (1001, records)
    log = folder.log()
    log.truncate_to(log.following.agreed_end(LeaderEpoch(0), Offset(100)), NOW_MS)
    assert log.log_end_offset == 22


def test_an_epoch_whose_first_records_were_compacted_away_is_kept_after_a_crash(folder: LogFolder) -> None:
    """A record beyond a gap tells nothing of the epochs that began in the gap."""
    follower = folder.create(cleanup_policy=frozenset({"compact"}))
    follower.following.append(b"".join(sent(offset, 0) for offset in range(6)), NOW_MS)
    follower.assign_leader_epoch(LeaderEpoch(3))
    follower.flush()
    follower.following.append(sent(8, 3) + sent(9, 5), NOW_MS)
    folder.crash()
    assert folder.log().leader_epochs == ((0, 0), (3, 6), (5, 9))


@pytest.mark.parametrize("first", [0, 2**33], ids=["behind a batch", "in an empty log"])
@pytest.mark.parametrize("ending", ["restart", "crash"])
def test_gap_beyond_the_reach_of_an_index_begins_a_segment(folder: LogFolder, ending: str, first: int) -> None:
    """The indexes of a segment have four bytes for an offset, as `LogSegment.canConvertToRelativeOffset` checks."""
    follower = folder.create()
    records = b"".join(sent(first + offset, 0) for offset in (0, 2**32, 2**32 + 1, 2**32 + 2, 2**32 + 3))
    follower.following.append(records, NOW_MS)
    assert follower.log_end_offset == first + 2**32 + 4
    getattr(folder, ending)()
    follower = folder.log()
    assert not follower.is_offline
    assert (follower.log_end_offset, read_bytes(follower)) == (first + 2**32 + 4, records)
    follower.truncate_to(follower.following.agreed_end(LeaderEpoch(0), Offset(first + 5)), NOW_MS)
    assert follower.log_end_offset == first + 1


@pytest.mark.parametrize("ending", ["restart", "crash"])
@pytest.mark.parametrize("offset", [10, 20])
@pytest.mark.parametrize("segment_bytes", [250, 1_000_000])
def test_a_truncation_into_a_gap_ends_behind_the_last_batch_below_it(
    folder: LogFolder, ending: str, offset: int, segment_bytes: int
) -> None:
    """The log ends where a start finds its end. Otherwise the start would take the gap for lost records, and the next
    truncation to the same offset would take more away than the first one."""
    follower = folder.create(segment_bytes=segment_bytes, cleanup_policy=frozenset({"compact"}))
    kept = sent(0, 0) + sent(1, 0)
    follower.following.append(kept + sent(20, 0) + sent(21, 0) + sent(500, 0), NOW_MS)
    follower.flush()
    for _ in range(2):
        follower.truncate_to(follower.following.agreed_end(LeaderEpoch(0), Offset(offset)), NOW_MS)
    end = follower.log_end_offset
    assert end <= offset
    assert read_bytes(follower) == kept

    getattr(folder, ending)()

    follower = folder.log()
    assert not follower.is_offline
    assert (follower.log_end_offset, read_bytes(follower)) == (end, kept)
    follower.following.append(sent(30, 0), NOW_MS)
    assert read_bytes(follower) == kept + sent(30, 0)


def test_gap_at_the_end_can_be_truncated(folder: LogFolder) -> None:
    """If the disk is full behind a gap, the log ends with an empty segment, and can still be truncated below it."""
    follower = folder.create()
    follower.following.append(sent(0, 0), NOW_MS)
    with failing("pwritev", errno.ENOSPC), pytest.raises(KafkaError):
        follower.following.append(sent(2**32, 0), NOW_MS)
    assert (follower.log_end_offset, follower.is_offline) == (2**32, False)
    follower.truncate_to(Offset(9), NOW_MS)
    assert follower.log_end_offset == 1
    folder.crash()
    assert (folder.log().log_end_offset, folder.log().is_offline) == (1, False)
