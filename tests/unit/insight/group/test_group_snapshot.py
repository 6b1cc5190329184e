"""Tests the lag of a snapshot in words."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.insight.pictures import group, member, snapshot


def test_a_partition_with_a_commit_and_no_end_is_unavailable() -> None:
    """Without a leader, the end of a partition can't be read; the commit is there all the same."""
    seen = snapshot(group(member("one", [0, 1, 2])), committed=5, end=7)
    assert seen.lag_in_words == "lag 6"
    without_leader = replace(seen, ends={key: ends for key, ends in seen.ends.items() if key != ("orders", 1)})
    assert without_leader.lag_in_words == "lag ≥ 4 (1 partition unavailable)"
    committed = {key: offset for key, offset in seen.committed.items() if key != ("orders", 0)}
    assert replace(without_leader, committed=committed).lag_in_words == (
        "lag ≥ 2 (1 partition uncommitted, 1 partition unavailable)"
    )
