"""Tests what limits a group, from the rates and the owners of its partitions."""

from __future__ import annotations

from klamm.core.group.partition_limits import GroupLimit, LimitKind, PartitionFlow, find_limits, limit_help, limit_text


def _flow(partition: int, owner: str | None, arriving: float, done: float, lag: int = 0) -> PartitionFlow:
    """Returns the traffic of a partition of orders. Its lag grows if it has any."""
    return PartitionFlow("orders", partition, owner, arriving, done, lag, lag > 0)


def _one(limits: tuple[GroupLimit, ...]) -> GroupLimit:
    (limit,) = limits
    return limit


def test_a_group_that_keeps_up_has_no_limit() -> None:
    """Partitions without lag, or whose owner does nearly all that arrives, limit nothing."""
    flows = [_flow(0, "a", 100, 100), _flow(1, "b", 100, 96, lag=300)]
    assert find_limits(flows, {"a", "b", "c"}) == ()


def test_a_lag_that_shrinks_is_no_limit() -> None:
    """A large lag limits nothing if it does not grow."""
    flow = PartitionFlow("orders", 0, "a", 100, 80, 50_000, is_growing=False)
    assert find_limits([flow, _flow(1, "b", 10, 10)], {"a", "b"}) == ()


def test_a_partition_that_gets_more_than_its_owner_does_is_the_limit() -> None:
    """A partition that alone exceeds its owner's pace limits the group, while other members are idle or in time."""
    flows = [_flow(0, "a", 900, 310, lag=41_230), _flow(1, "b", 100, 100), _flow(2, "a", 5, 5)]
    limit = _one(find_limits(flows, {"a", "b", "c"}))
    assert (limit.kind, limit.flow.partition, limit.pace) == (LimitKind.PARTITION, 0, 315)
    assert limit_text(limit) == (
        "limited by orders-0: 900 records/s arrive, its owner a does 310/s of them, the lag of 41,230 grows by 590/s; "
        "1 of 3 members is idle, 1 has no lag that grows"
    )
    assert limit_help(limit).startswith(
        "more members do not help, because a partition has one owner: orders-0 alone gets 2.9 times the 315/s that its "
        "owner does in all. `klamm topic skew orders` shows whether one key fills it."
    )


def test_an_owner_with_too_much_is_limited_by_the_assignment() -> None:
    """If each partition of a late owner is within the owner's pace, another assignment helps."""
    flows = [_flow(0, "a", 400, 250, lag=900), _flow(1, "a", 300, 200, lag=500), _flow(2, "b", 10, 10)]
    limit = _one(find_limits(flows, {"a", "b"}))
    assert limit.kind is LimitKind.OWNER
    assert limit_text(limit) == (
        "limited by the assignment: 700 records/s arrive in the 2 partitions of a (orders-0, orders-1), it does 450/s; "
        "1 of 2 members has no lag that grows"
    )
    assert "its heaviest partition orders-0 gets 400/s, which it can do" in limit_help(limit)


def test_too_few_partitions_are_the_limit() -> None:
    """If the lag grows in every partition and members are idle, more partitions help, more members do not."""
    flows = [_flow(0, "a", 500, 300, lag=900), _flow(1, "b", 400, 320, lag=500)]
    limit = _one(find_limits(flows, {"a", "b", "c", "d"}))
    assert limit.kind is LimitKind.PARTITION_COUNT
    assert limit_text(limit) == (
        "limited by the number of partitions: 2 partitions for 4 members, and the lag grows in each: "
        "900 records/s arrive, 620/s are done, 310/s by each owner; 2 of 4 members are idle"
    )
    assert limit_help(limit).startswith("more members do not help; about 3 partitions do, if the keys spread over them")


def test_too_few_members_are_the_limit() -> None:
    """If every member is behind and has several partitions, more members help, at most one for each partition."""
    flows = [_flow(index, "a" if index < 2 else "b", 300, 200, lag=500) for index in range(4)]
    limit = _one(find_limits(flows, {"a", "b"}))
    assert (limit.kind, limit.pace) == (LimitKind.MEMBERS, 400)
    assert limit_text(limit) == (
        "limited by the number of members: the lag grows with every member: 1,200 records/s arrive, 800/s are done, "
        "400/s by each"
    )
    assert limit_help(limit) == "more members help: about 3 for the 4 partitions"


def test_a_hot_partition_is_told_with_too_few_members() -> None:
    """If more members help, but one partition exceeds what a member does, both are told."""
    flows = [_flow(0, "a", 900, 200, lag=5_000), _flow(1, "a", 100, 90, lag=10)]
    members, partition = find_limits(flows, {"a"})
    assert (members.kind, partition.kind) == (LimitKind.MEMBERS, LimitKind.PARTITION)
    assert limit_help(members) == ("more members help, up to 2: one for each partition; about 4 would be needed")
    assert limit_text(partition).endswith("no member of 1 has time left")


def test_partitions_without_records_are_no_reason_for_more_partitions() -> None:
    """One hot partition among empty ones is the limit itself, not the number of partitions."""
    flows = [_flow(0, "a", 900, 300, lag=5_000), _flow(1, "b", 0, 0), _flow(2, "c", 0, 0)]
    limit = _one(find_limits(flows, {"a", "b", "c"}))
    assert (limit.kind, limit.in_time) == (LimitKind.PARTITION, 2)


def test_an_owner_that_commits_nothing_is_told() -> None:
    """Without any commit of the owner there is no pace to compare with."""
    flows = [_flow(0, "a", 900, 0, lag=5_000), _flow(1, "b", 10, 10)]
    limit = _one(find_limits(flows, {"a", "b"}))
    assert "and its owner commits nothing: it may hang, or not commit yet" in limit_help(limit)


def test_a_group_that_commits_nothing_is_not_judged_by_its_pace() -> None:
    """If no partition advances, nothing is known about the members' pace: they hang, or commit seldom."""
    flows = [_flow(0, "a", 900, 0, lag=5_000), _flow(1, "b", 100, 0, lag=50)]
    limit = _one(find_limits(flows, {"a", "b", "c"}))
    assert limit.kind is LimitKind.NO_COMMITS
    assert limit_text(limit) == "the lag of 5,050 grows: 1,000 records/s arrive, and nothing was committed"
    assert limit_help(limit).startswith("the members may hang, or commit less often than they were measured")


def test_partitions_without_an_owner_limit_nothing() -> None:
    """A partition without an owner is not read at all: that is a matter of the assignment in progress."""
    assert find_limits([_flow(0, None, 900, 0, lag=5_000)], {"a"}) == ()


def test_an_owner_without_a_commit_is_not_idle() -> None:
    """Its partition has no rate yet, but it has work."""
    flow = _flow(0, "a", 900, 300, lag=5_000)
    limits = [find_limits([flow], {"a", "b"}, owners)[0].idle for owners in ((), ("a", "b"))]
    assert limits == [1, 0]


def test_at_most_three_limits_are_told_the_worst_first() -> None:
    """The partitions whose lag grows fastest are told, one for each owner."""
    flows = [_flow(index, f"m{index}", 100 * index + 100, 50, lag=10) for index in range(5)]
    flows += [_flow(5, "m5", 1, 1)]
    limits = find_limits(flows, {f"m{index}" for index in range(6)})
    assert [limit.flow.partition for limit in limits] == [4, 3, 2]
