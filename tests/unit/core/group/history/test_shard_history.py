"""Tests of the history records that follow from requests to the shard of a classic group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.unit.core.group.history.shard_history import ShardHistory
from tests.unit.core.group.painted_topics import PaintedTopics
from tests.unit.core.group.shard_driver import small_sessions, subscription

from klamm.core.group.events import Cause, MemberRemoved, RebalanceNeeded
from klamm.core.group.shard import GroupShard
from klamm.protocol.consumer_protocol import encode_assignment, encode_subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment
from klamm.protocol.schema.consumer_protocol_assignment import TopicPartition as AssignedPartitions
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.consumer_protocol_subscription import TopicPartition as OwnedPartitions
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity

SESSION_MS = 10_000
REBALANCE_MS = 60_000


@pytest.fixture
def driver() -> ShardHistory:
    return ShardHistory()


def share(*partitions: int) -> bytes:
    """Returns an assignment of partitions of `events`."""
    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[AssignedPartitions(topic="events", partitions=list(partitions))] if partitions else []
        )
    )


def owning(*partitions: int, topics: Sequence[str] = ("events",)) -> tuple[tuple[str, bytes], ...]:
    """Returns the protocols of a cooperative member that owns these partitions."""
    owned = [OwnedPartitions(topic="events", partitions=list(partitions))] if partitions else []
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=owned)
    return (("cooperative-sticky", encode_subscription(message, 1)),)


def settle(driver: ShardHistory, shares: Mapping[str, bytes]) -> None:
    """Sends the SyncGroup requests of all members, the leader last."""
    group = driver.group()
    leader = group.leader_id
    assert leader is not None
    assert group.members.keys() == shares.keys()
    for member_id in [*(member_id for member_id in shares if member_id != leader), leader]:
        instance = group.members[member_id].group_instance_id
        driver.sync(member_id, group.generation, shares if member_id == leader else None, instance=instance)


def begin(driver: ShardHistory, size: int = 2, **join: object) -> list[str]:
    """Creates a group at generation 1 with two partitions for each member; returns the ids, the leader first."""
    ids = [driver.member_id(**join) for _ in range(size)]
    for member_id in ids:
        driver.join(member_id, **join)  # type: ignore[arg-type]
    driver.advance(driver.config.initial_rebalance_delay_ms * 2)
    settle(driver, {member_id: share(2 * index, 2 * index + 1) for index, member_id in enumerate(ids)})
    assert driver.outcomes() == [("stable", 0, 1)]
    return ids


def test_first_generation_and_a_newcomer(driver: ShardHistory) -> None:
    """A record has the moved partitions with old owner, new owner and committed offset, and the pauses of members."""
    a, b = begin(driver)
    assert driver.last["assignor"] == "range"
    assert driver.causes() == [("member_joined", a), ("member_joined", b)]
    driver.commit(7, member_id=b, generation=1, partition=3)
    c = driver.member_id(client_id="late")
    driver.join(c, client_id="late")
    driver.advance(1000)
    driver.join(a)
    driver.advance(500)
    driver.join(b)
    driver.advance(100)
    settle(driver, {a: share(0, 1), b: share(2), c: share(3)})
    assert driver.outcomes()[1:] == [("stable", 1, 2)]
    assert driver.causes() == [("member_joined", c)]
    assert driver.moved() == {3: (b, c, 7)}
    assert driver.pauses() == {a: 600, b: 100}
    assert driver.last["finished_ms"] - driver.last["started_ms"] == 1600
    assert [member["client"] for member in driver.last["members_after"]] == ["client", "client", "late"]


def test_cooperative_members_keep_what_they_own(driver: ShardHistory) -> None:
    """Cooperative members keep partitions without a pause and revoke the others, which causes another generation."""
    (a,) = begin(driver, 1, protocols=owning())
    b = driver.member_id(protocols=owning())
    driver.join(b, protocols=owning())
    driver.advance(1000)
    driver.join(a, protocols=owning(0, 1))
    driver.advance(100)
    settle(driver, {a: share(0), b: share()})
    assert driver.moved() == {1: (a, None, None)}
    assert driver.pauses() == {a: 0}
    driver.join(a, protocols=owning(0))
    driver.advance(100)
    driver.join(b, protocols=owning())
    settle(driver, {a: share(0), b: share(1)})
    assert driver.causes() == [("partitions_revoked", a)]
    assert driver.moved() == {1: (None, b, None)}
    assert driver.pauses() == {a: 0}


def test_leaving_dying_and_being_late_are_told_apart(driver: ShardHistory) -> None:
    """A leave, a session timeout and a rebalance timeout are separate causes with their members, in their order."""
    a, b, c, d = begin(driver, 4, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS)
    driver.advance(1000)
    for member_id in (a, b, d):
        driver.heartbeat(member_id, 1)
    driver.leave((b, None))
    driver.join(a)
    for _ in range(REBALANCE_MS // 5000):
        driver.advance(5000)
        driver.heartbeat(d, 1)
    settle(driver, {a: share(*range(8))})
    assert driver.causes() == [("member_left", b), ("session_timed_out", c), ("rebalance_timed_out", d)]
    removed = [(event.member_id, event.cause.value) for event in driver.events if isinstance(event, MemberRemoved)]
    assert removed == [(b, "member_left"), (c, "session_timed_out"), (d, "rebalance_timed_out")]
    assert driver.texts()[1:] == [
        f"member {c}: no heartbeat for {SESSION_MS} ms",
        f"member {d}: it did not join again in time",
    ]


def test_member_that_never_asks_for_its_assignment_is_dropped(driver: ShardHistory) -> None:
    """A generation is recorded as stable even if a member never sends SyncGroup; its removal starts the next one."""
    ids = [driver.member_id() for _ in range(2)]
    for member_id in ids:
        driver.join(member_id)
    driver.advance(6000)
    driver.sync(ids[0], 1, {ids[0]: share(0), ids[1]: share(1)})
    for _ in range(REBALANCE_MS // 5000):
        driver.advance(5000)
        for member_id in ids:
            driver.heartbeat(member_id, 1)
    driver.join(ids[0])
    settle(driver, {ids[0]: share(0, 1)})
    assert driver.outcomes() == [("stable", 0, 1), ("stable", 1, 2)]
    assert driver.causes() == [("rebalance_timed_out", ids[1])]


def test_administrator_is_told_from_a_member_that_leaves(driver: ShardHistory) -> None:
    """A leave with the reason of Kafka's admin client has the cause admin; any other reason is a member that left."""
    a, b, c = begin(driver, 3)
    reason = "member was removed by an admin"
    identities = [MemberIdentity(member_id=b, reason=reason), MemberIdentity(member_id=c, reason="going home")]
    driver.ask(GroupShard.handle_leave_group, LeaveGroupRequest(group_id="orders", members=identities), 5)
    driver.join(a)
    settle(driver, {a: share(0)})
    assert driver.causes() == [("admin", b), ("member_left", c)]
    assert driver.texts() == [
        f"member {b} was removed by an administrator; the client says: {reason}",
        f"member {c} left; the client says: going home",
    ]


@pytest.mark.parametrize(
    ("protocols", "code"),
    [
        ((("range", subscription("events", "audit")),), "subscription_changed"),
        ((("range", subscription("events")), ("roundrobin", subscription("events"))), "assignor_changed"),
        ((("range", subscription("events") + b"\0"),), "member_rejoined"),
    ],
)
def test_member_that_joins_again_says_why(
    driver: ShardHistory, protocols: tuple[tuple[str, bytes], ...], code: str
) -> None:
    """The cause of a rejoin follows from the changes in the protocols and the subscription of the member."""
    a, b = begin(driver)
    driver.join(b, protocols=protocols)
    driver.join(a)
    settle(driver, {a: share(0), b: share(1)})
    assert driver.causes() == [(code, b)]


def test_leader_that_joins_again_has_seen_something(driver: ShardHistory) -> None:
    """A rejoin of the leader without a change has its own cause, with the reason that newer clients send."""
    a, b = begin(driver)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription("events"))]
    request = JoinGroupRequest(
        group_id="orders",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=a,
        protocol_type="consumer",
        protocols=protocols,
        reason="cached metadata has changed",
    )
    driver.ask(GroupShard.handle_join_group, request, 9)
    driver.join(b)
    settle(driver, {a: share(0), b: share(1)})
    assert driver.causes() == [("leader_rejoined", a)]
    assert driver.texts()[0].endswith("the client says: cached metadata has changed")


@pytest.mark.parametrize(
    ("partitions", "code", "text"),
    [
        ({"events": 6}, "partitions_added", "topic events has 6 partitions instead of 4"),
        ({"events": 4, "audit": 1}, "topic_created", "topic audit was created"),
        ({}, "topic_deleted", "topic events was deleted"),
        ({"events": 4, "other": 9}, "leader_rejoined", "joins again"),
    ],
)
def test_leader_that_joins_again_may_have_seen_a_topic_change(partitions: dict[str, int], code: str, text: str) -> None:
    """If the leader rejoins after a change of a topic of the group, the cause is that change."""
    driver = ShardHistory(topics=PaintedTopics(events=4))
    protocols = (("range", subscription("events", "audit")),)
    a, b = begin(driver, protocols=protocols)
    driver.apply(driver.shard.on_metadata_update(PaintedTopics(2, incarnations=None, **partitions), (), driver.now))
    driver.do_chores()
    driver.join(a, protocols=protocols)
    driver.join(b, protocols=protocols)
    settle(driver, {a: share(0), b: share(1)})
    assert driver.causes() == [(code, a)]
    assert driver.texts()[0].endswith(text)


def test_partitions_on_their_way_between_cooperative_members_are_no_change_of_the_topic() -> None:
    """A partition that moves between cooperative members has no owner for a generation, and is no topic change."""
    driver = ShardHistory(topics=PaintedTopics(events=2))
    (a,) = begin(driver, 1, protocols=owning())
    driver.join(driver.member_id(protocols=owning()), protocols=owning())
    driver.join(a, protocols=owning(0, 1))
    settle(driver, {member_id: share(0) if member_id == a else share() for member_id in driver.group().members})
    driver.join(a, protocols=owning(0, 1))
    (event,) = [event for event in driver.events if isinstance(event, RebalanceNeeded) and event.epoch == 2]
    assert event.cause is Cause.LEADER_REJOINED


def test_assignment_that_can_not_be_stored_is_a_cause(driver: ShardHistory) -> None:
    """A generation whose assignment the log refuses is superseded, and the failure is the cause of the next one."""
    (a,) = begin(driver, 1)
    driver.join(a)
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    driver.sync(a, 2, {a: share(0)})
    driver.append_error = None
    driver.join(a)
    settle(driver, {a: share(0, 1)})
    assert driver.outcomes()[1:] == [("superseded", 1, 2), ("stable", 2, 3)]
    assert driver.causes() == [("assignment_failed", a)]


def test_static_member_that_returns_is_told_without_a_new_generation(driver: ShardHistory) -> None:
    """The return of a static member is recorded without a new generation and without moves."""
    ticket = driver.join(instance="pod-1")
    driver.advance(6000)
    old = driver.joined(ticket).member_id
    settle(driver, {old: share(0, 1)})
    new = driver.joined(driver.join(instance="pod-1")).member_id
    assert driver.outcomes()[1:] == [("stable", 1, 1)]
    assert driver.causes() == [("static_member_returned", old)]
    assert driver.moved() == {}
    assert [member["member"] for member in driver.last["members_after"]] == [new]


def test_group_that_everybody_left_is_empty_and_may_be_deleted(driver: ShardHistory) -> None:
    """The last leave is recorded with the outcome empty, and DeleteGroups with the outcome deleted."""
    (a,) = begin(driver, 1)
    driver.leave((a, None))
    driver.ask(GroupShard.handle_delete_groups, DeleteGroupsRequest(groups_names=["orders"]), 2)
    assert driver.outcomes()[1:] == [("empty", 1, 2), ("deleted", 2, 2)]
    assert driver.causes() == [("admin", None)]


def test_group_that_ends_by_time_is_told(driver: ShardHistory) -> None:
    """The expiration of an empty group without offsets is recorded with the outcome deleted."""
    (a,) = begin(driver, 1)
    driver.leave((a, None))
    driver.advance(driver.config.offsets_retention_check_interval_ms)
    assert driver.outcomes()[2:] == [("deleted", 2, 2)]
    assert driver.causes() == [("offsets_expired", None)]


def test_emptied_group_is_told_though_the_log_refuses_to_hear_of_it(driver: ShardHistory) -> None:
    """The last leave is recorded even if the log refuses the empty group record, because the group is empty anyway."""
    (a,) = begin(driver, 1)
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    driver.leave((a, None))
    assert driver.outcomes()[1:] == [("empty", 1, 2)]


def test_next_coordinator_goes_on_from_what_the_log_says(driver: ShardHistory) -> None:
    """A new coordinator records the takeover first, with the members from the log, and then the next change."""
    a, b = begin(driver, session_timeout_ms=SESSION_MS)
    after = driver.last["members_after"]
    next_one = driver.reload()
    next_one.advance(SESSION_MS - 1)
    next_one.heartbeat(a, 1)
    next_one.advance(1)
    next_one.join(a)
    settle(next_one, {a: share(0, 1, 2, 3)})
    assert next_one.outcomes()[1:] == [("taken_over", 1, 1), ("stable", 1, 2)]
    taken_over, change = next_one.records[1:]
    assert taken_over["members_after"] == change["members_before"] == after
    assert [(record["coordinator_epoch"], record["sequence"]) for record in next_one.records] == [
        (0, 0),
        (1, 0),
        (1, 1),
    ]
    assert next_one.moved() == {2: (b, a, None), 3: (b, a, None)}


def test_joins_and_leaves_that_were_batched_are_one_change() -> None:
    """A batch of joins and leaves is one change from the first event on, and members do not pause while it waits."""
    driver = ShardHistory(small_sessions(rebalance_batch_ms=2000))
    a, b = begin(driver)
    c = driver.member_id()
    driver.join(c)
    driver.advance(1000)
    driver.leave((b, None))
    driver.advance(1000)
    driver.join(a)
    driver.advance(10)
    settle(driver, {a: share(0, 1), c: share(2, 3)})
    assert driver.outcomes()[1:] == [("stable", 1, 2)]
    assert driver.causes() == [("member_joined", c), ("member_left", b)]
    assert driver.pauses() == {a: 10}
    assert driver.last["finished_ms"] - driver.last["started_ms"] == 2010


def test_member_that_dies_again_and_again_is_in_a_crash_loop(driver: ShardHistory) -> None:
    """From the third death on, deaths and joins of a client id on one host are marked as a crash loop."""
    (a,) = begin(driver, 1, session_timeout_ms=30_000)

    def live_and_die() -> None:
        member_id = driver.member_id(client_id="broken")
        driver.join(member_id, client_id="broken", session_timeout_ms=SESSION_MS)
        driver.join(a, session_timeout_ms=30_000)
        generation = driver.group().generation
        settle(driver, {a: share(0, 1), member_id: share(2, 3)})
        joined_in_a_loop.append(driver.last["causes"][0]["crash_loop"])
        for _ in range(SESSION_MS // 5000):
            driver.advance(5000)
            driver.heartbeat(a, generation)
        driver.join(a, session_timeout_ms=30_000)
        settle(driver, {a: share(0, 1, 2, 3)})
        died_in_a_loop.append(driver.last["causes"][0]["crash_loop"])

    joined_in_a_loop: list[bool] = []
    died_in_a_loop: list[bool] = []
    for _ in range(4):
        live_and_die()
    assert joined_in_a_loop == [False, False, False, True]
    assert died_in_a_loop == [False, False, True, True]
    assert driver.texts()[0].endswith("it is in a crash loop: 4 deaths without a commit")


def test_commit_marks_the_member(driver: ShardHistory) -> None:
    """A commit marks the member as having committed, so that its end is no sign of a crash loop."""
    (a,) = begin(driver, 1)
    member = driver.group().members[a]
    assert not member.has_committed
    driver.commit(5, member_id=a, generation=1)
    assert member.has_committed
