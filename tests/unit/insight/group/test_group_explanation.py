"""Tests the explanation of a group's state: each example gives evidence and expects sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.core.group.history.history_records import cause, member_id
from tests.unit.insight.pictures import NOW_MS, group, history_of, keys, member, then

from klamm.core.group.history.history_record import HistoryRecord
from klamm.insight.group.group_explanation import Evidence, Explanation, explain
from klamm.insight.group.group_picture import GroupPicture, MemberPicture
from klamm.insight.group.replayed_group import ReplayedGroup, ReplayedMember


def _explain(picture: GroupPicture, **evidence: Any) -> Explanation:
    given: dict[str, Any] = {"picture": picture, "now_ms": NOW_MS, "partition_counts": {"orders": 6}}
    return explain(Evidence(**given | evidence))


def _group(picture: GroupPicture, **evidence: Any) -> list[str]:
    """Returns the lines about the group, without the first line and the assignor's rule."""
    return [line for line in _explain(picture, **evidence).lines[1:] if "shares out" not in line]


def _member(name: str, picture: GroupPicture, **evidence: Any) -> list[str]:
    explained = _explain(picture, **evidence).members
    return next(list(each.lines) for each in explained if each.name.partition("#")[0] == name)


def _real(name: str, *arguments: Any, **fields: Any) -> MemberPicture:
    """Returns a member with the id that it has in the history."""
    return member(name, *arguments, member_id=member_id(name), **fields)


def test_a_stable_group_is_told_in_a_few_lines() -> None:
    """A stable group is explained by its protocol, state, epoch, counts and shares."""
    picture = group(member("one", [0, 1, 2]), member("two", [3, 4, 5]))
    explanation = _explain(picture)
    assert explanation.lines == (
        "consumer protocol, stable, epoch 7, 2 members, 6 partitions",
        "uniform shares out evenly: 6 partitions among 2 members: each has 3; "
        "it leaves partitions where they are as far as it can",
    )
    assert [(each.name, each.lines) for each in explanation.members] == [
        ("one", ("has orders 0-2: 3 of 6 partitions",)),
        ("two", ("has orders 3-5: 3 of 6 partitions",)),
    ]


def test_a_classic_groups_generation_comes_from_the_log() -> None:
    """The generation of a classic group comes from the log, because DescribeGroups does not return it."""
    picture = group(member("one", [0]), kind="classic", epoch=None, assignment_epoch=None)
    assert _explain(picture).lines[0] == "classic protocol, stable, 1 member, 1 partition"
    replayed = ReplayedGroup("billing", epoch=3)
    assert (
        _explain(picture, replayed=replayed).lines[0] == "classic protocol, stable, generation 3, 1 member, 1 partition"
    )


def test_a_partition_is_there_because_of_a_change() -> None:
    """A member's partitions are explained by a change: when, from which member and why. Partitions of the same change
    share a line."""
    picture = group(_real("one", [0, 1, 2]), _real("two", [3, 4]), _real("three", [5]))
    history = [
        history_of(
            epoch=6,
            finished_ms=NOW_MS - 60_000,
            before=[then("one", orders=[0, 1, 2, 3, 4, 5])],
            after=[then("one", orders=[0, 1, 2]), then("two", orders=[3, 4, 5])],
            causes=[cause("member_joined", "two", "member {} joined")],
        ),
        history_of(
            epoch=7,
            before=[then("one", orders=[0, 1, 2]), then("two", orders=[3, 4, 5])],
            after=[then("one", orders=[0, 1, 2]), then("two", orders=[3, 4]), then("three", orders=[5])],
            causes=[cause("member_joined", "three", "member {} joined")],
        ),
    ]
    evidence = {"history": history}
    assert "last change: epoch 7, 10.0 s ago, because member three joined" in _group(picture, **evidence)
    assert _member("one", picture, **evidence)[1:] == ["orders 0-2: longer than the history goes back (epoch 6)"]
    assert _member("two", picture, **evidence)[1:] == [
        "orders 3, 4: since epoch 6, 60.0 s ago, from one, because member two joined"
    ]
    assert _member("three", picture, **evidence)[1:] == [
        "orders 5: since epoch 7, 10.0 s ago, from two, because member three joined"
    ]


def test_partitions_may_come_from_several_or_from_nobody() -> None:
    """The explanation names each previous owner of the partitions, or says that there was none."""
    picture = group(_real("three", [0, 1, 2]))
    lost = history_of(
        before=[then("one", orders=[0]), then("two", orders=[1])],
        after=[then("three", orders=[0, 1, 2])],
        causes=[
            cause("session_timed_out", "one", "member {} sent no heartbeat for 45000 ms"),
            cause("session_timed_out", "two", "member {} sent no heartbeat for 45000 ms"),
            cause("member_joined", "three", "member {} joined"),
        ],
    )
    assert _member("three", picture, history=[lost])[1] == (
        "orders 0-2: since epoch 7, 10.0 s ago, from one (orders 0) and two (orders 1), because member one sent no "
        "heartbeat for 45000 ms, member two sent no heartbeat for 45000 ms and member three joined"
    )
    first = history_of(after=[then("three", orders=[0, 1, 2])], causes=[cause("member_joined", "three", "{} joined")])
    assert _member("three", picture, history=[first])[1] == (
        "orders 0-2: since epoch 7, 10.0 s ago, without an owner before, because three joined"
    )


def test_a_static_member_is_the_same_under_another_id() -> None:
    """A static member that returns under a new member id keeps the history of its partitions."""
    before = then("old", orders=[0]) | {"instance": "instance-1"}
    history = [history_of(epoch=5, after=[before], causes=[cause("member_joined", "old", "{} joined")])]
    picture = group(member("new", [0], instance_id="instance-1"))
    assert _member("instance-1", picture, history=history)[1] == (
        "orders 0: since epoch 5, 10.0 s ago, without an owner before, because instance-1 joined"
    )


def test_without_a_history_the_log_tells_since_when() -> None:
    """Without a history, as on Apache Kafka, the log gives the time of a member's assignment."""
    replayed = ReplayedGroup("billing", epoch=7)
    replayed.members["one-0"] = ReplayedMember("one-0", epoch=6, changed_ms=NOW_MS - 8_000)
    assert _member("one", group(member("one", [0])), replayed=replayed)[1] == "was told of them 8.0 s ago, for epoch 6"


def test_who_waits_for_whom_is_told_on_all_sides() -> None:
    """A wait is shown for the group, for the waiting member and for the member that must give back partitions."""
    picture = group(
        member("one", [0, 1, 2, 3], [0, 1], epoch=6), member("two", [], [2, 3], epoch=7), state="reconciling"
    )
    replayed = ReplayedGroup("billing", epoch=7, assigned_ms=NOW_MS - 5_000)
    replayed.members["one-0"] = ReplayedMember("one-0", pending_revocation=keys([2, 3]), changed_ms=NOW_MS - 4_000)
    evidence: dict[str, Any] = {"replayed": replayed, "partition_counts": {"orders": 4}}
    assert _group(picture, **evidence) == ["two waits for orders 2, 3 from one, who was told 4.0 s ago"]
    assert _member("one", picture, replayed=replayed) == [
        "has orders 0-3: 4 of 4 partitions",
        "keeps orders 0, 1",
        "has to give back orders 2, 3; two waits for orders 2, 3",
        "is still at epoch 6; the target is of epoch 7",
    ]
    assert _member("two", picture, replayed=replayed) == [
        "has nothing",
        "waits for orders 2, 3 from one, who was told 4.0 s ago",
    ]


def test_more_members_than_partitions_leave_some_idle() -> None:
    """If there are more members than partitions, the idle members are described as standbys."""
    two_partitions = {"partition_counts": {"orders": 2}}
    picture = group(member("one", [0]), member("two", [1]), member("three"))
    assert _group(picture, **two_partitions) == [
        "3 members, 2 partitions: one stays idle (three) and takes over when another one goes"
    ]
    assert _member("three", picture, **two_partitions) == [
        "has nothing",
        "stands by: all partitions are with others, and it takes over when one of them goes",
    ]
    picture = group(member("one", [0]), member("two", [1]), member("three"), member("four"))
    assert _group(picture, **two_partitions) == [
        "4 members, 2 partitions: 2 stay idle (four and three) and take over when another one goes"
    ]


def test_a_member_that_wants_something_else_has_nothing() -> None:
    """A member has no partitions if its topics have none or if it subscribes to no topic, and the explanation says
    so."""
    one = member("one", [0, 1, 2, 3, 4, 5])
    assert _member("two", group(one, member("two", topics=frozenset({"bills"}))))[1] == (
        "subscribes to bills only, of which there is nothing to share out"
    )
    assert _member("two", group(one, member("two", topics=frozenset())))[1] == "subscribes to nothing that exists"


def _died(name: str, number: int, *, crash_loop: bool, at_ms: int = NOW_MS - 20_000) -> HistoryRecord:
    """Returns a change that was caused by the death of a member with this name and the arrival of the next."""
    gone = {**then(name), "member": f"{name}-life-{number}"}
    text = f"member {gone['member']} sent no heartbeat" + ("; it is in a crash loop" if crash_loop else "")
    lost = {
        "code": "session_timed_out",
        "member": gone["member"],
        "text": text,
        "at_ms": at_ms,
        "crash_loop": crash_loop,
    }
    joined = cause("member_joined", name, "member {} joined", at_ms)
    return history_of(epoch=number, before=[gone], after=[then(name)], causes=[lost, joined])


def test_a_member_in_a_crash_loop_is_held_back() -> None:
    """A consumer group holds back a member in a crash loop, by the name of its predecessors; the member is no
    standby."""
    picture = group(_real("one", [0, 1]), _real("two"))
    evidence = {"history": [_died("two", 3, crash_loop=True)], "partition_counts": {"orders": 2}}
    assert _member("two", picture, **evidence) == [
        "has nothing",
        "is held back: member two#life-3 sent no heartbeat; it is in a crash loop",
    ]
    assert not any("idle" in line for line in _group(picture, **evidence))
    # In a classic group the leader, which is a client, still assigns partitions to the member.
    picture = group(_real("one", [0]), _real("two", [1]), kind="classic")
    assert _member("two", picture, **evidence)[-1].startswith("is in a crash loop: member two")


def test_a_crash_loop_is_forgiven() -> None:
    """A crash loop is over when the last member of that name ended differently, or after enough time."""
    picture = group(_real("one", [0, 1]), _real("two"))

    def troubles(*history: HistoryRecord) -> list[str]:
        return [line for line in _member("two", picture, history=history) if "crash" in line]

    assert troubles(_died("two", 3, crash_loop=True)) != []
    assert troubles(_died("two", 3, crash_loop=True), _died("two", 4, crash_loop=False)) == []
    assert troubles(_died("two", 3, crash_loop=True, at_ms=NOW_MS - 400_000)) == []
    assert troubles(_died("other", 3, crash_loop=True)) == []


def test_a_member_that_was_let_go_on_is_a_standby_like_others() -> None:
    """A member that is no longer held back counts as a standby if it has no partitions."""
    picture = group(_real("one", [0]), _real("two"))
    text = "member {} was held back and may have partitions again"
    let_go = history_of(
        epoch=4,
        before=[then("two")],
        after=[then("two")],
        causes=[cause("member_held_back", "two", text, NOW_MS - 1_000)],
    )
    evidence = {"history": [_died("two", 3, crash_loop=True), let_go], "partition_counts": {"orders": 1}}
    assert _member("two", picture, **evidence)[-1].startswith("stands by")
    assert any("one stays idle" in line for line in _group(picture, **evidence))


def test_partitions_that_nobody_has_are_told() -> None:
    """Partitions without an owner are named, for example new partitions that a classic group's leader has not seen
    yet."""
    picture = group(member("one", [0, 1]), kind="classic")
    (line,) = (line for line in _group(picture) if "no member owns" in line)
    assert line.startswith("no member owns orders 2-5: the leader has not seen them yet")
    # During a rebalance of a classic group no member has partitions; another line says so.
    joining = group(member("one"), kind="classic", state="preparing-rebalance")
    assert not any("no member owns" in line for line in _group(joining))


def test_lag_is_told_with_its_worst_partition() -> None:
    """The lag line names the partition with the largest lag; a partition without a commit has no lag."""
    picture = group(member("one", [0, 1, 2]))
    lags = {("orders", 0): 1_000, ("orders", 1): 204, ("orders", 2): None}
    evidence = {"lags": lags, "partition_counts": {"orders": 3}}
    assert _group(picture, **evidence) == [
        "lag ≥ 1,204 (1 partition uncommitted), most of it in orders-0 (1,000)",
        "nothing is committed yet for orders 2, so there is no lag to tell",
    ]
    assert _member("one", picture, **evidence)[-1] == "lag ≥ 1,204 (1 partition uncommitted), most of it in orders-0"
    assert _group(picture, lags={("orders", 0): 0}, partition_counts={"orders": 3}) == ["lag 0"]


def test_members_needed_are_told_where_somebody_knows() -> None:
    """The number of needed members is compared with the current number: less, as many, or more."""
    picture = group(member("one", [0, 1, 2]), member("two", [3, 4, 5]))
    assert [_group(picture, members_needed=needed)[-1] for needed in (1, 2, 5)] == [
        "1 member needed for the lag that is wanted, less than the 2 there are",
        "2 members needed for the lag that is wanted, as many as there are",
        "5 members needed for the lag that is wanted, more than the 2 there are",
    ]


def test_a_classic_member_of_a_consumer_group_stands_out() -> None:
    """A member that uses the classic protocol in a consumer group is pointed out; an upgrade is in progress."""
    picture = group(member("one", [0], uses_classic_protocol=True))
    assert _member("one", picture)[-1] == "speaks the classic protocol: it has to join again for every change"


def test_a_group_without_members_is_told_too() -> None:
    """A group without members is explained by its state only."""
    assert _explain(group(state="empty", assignor=None)).lines == ("consumer protocol, empty, epoch 7, 0 members",)


def test_a_topic_that_does_not_exist_is_told() -> None:
    """A subscribed topic that does not exist is named; a typing error is hard to see otherwise."""
    picture = group(member("one", [0], topics=frozenset({"orders", "bils"})))
    assert _group(picture, partition_counts={"orders": 1}) == ["members subscribe to bils, which does not exist"]
    assert not any("exist" in line for line in _group(picture, partition_counts={}))


def test_a_group_that_does_not_come_to_rest_is_told() -> None:
    """A group with many recent disturbances is reported with the member that caused most of them."""
    history = [
        history_of(epoch=epoch, after=[then("two")], causes=[cause("session_timed_out", "two", "member {} was lost")])
        for epoch in range(1, 8)
    ]
    picture = group(member("one", [0]))
    (line,) = (line for line in _group(picture, history=history) if "rest" in line)
    assert line == (
        "7 disturbances in the last 10 min: the group does not come to rest; two at 10.0.0.1 has caused 7 of them"
    )
    assert not any("rest" in line for line in _group(picture, history=history[:5]))
    joins = [history_of(epoch=epoch, causes=[cause("member_joined", "two", "member {} joined")]) for epoch in range(9)]
    assert not any("rest" in line for line in _group(picture, history=joins))
    later = Evidence(picture=picture, now_ms=NOW_MS + 900_000, history=history)
    assert not any("rest" in line for line in explain(later).lines)


def test_a_rebalance_under_way_is_told_with_its_own_cause() -> None:
    """A rebalance in progress is explained by its own cause, or without a cause; the cause of the last change is not
    used."""
    before = history_of(causes=[cause("member_joined", "one", "member one-0 joined", NOW_MS - 10_000)])
    picture = group(member("one"), kind="classic", state="preparing-rebalance")
    told = replace(picture, change_causes=("member one-0 left",), changing_since_ms=NOW_MS - 2_000)
    (line,) = (line for line in _group(told, history=[before]) if "because" in line)
    assert line == "changing since 2.0 s, because member one left"
    assert not any("because" in line for line in _group(picture, history=[before]))


def test_a_member_that_is_joining_does_not_stand_by() -> None:
    """A member that is joining is not described as a standby, because it has not received an assignment yet."""
    members = [member("one", [0]), member("two")]
    for picture in (
        group(*members, kind="classic", state="completing-rebalance"),
        group(members[0], replace(members[1], epoch=0), state="reconciling", assignment_epoch=7),
    ):
        lines = _member("two", picture, partition_counts={"orders": 1})
        assert any(line.startswith("is joining") for line in lines), lines
        assert not any("idle" in line for line in _group(picture, partition_counts={"orders": 1}))
    settled = group(*members, assignment_epoch=7)
    assert _member("two", settled, partition_counts={"orders": 1})[-1].startswith("stands by")


def test_a_partition_whose_end_can_not_be_read_is_not_called_uncommitted() -> None:
    """A commit without a lag has another reason: a partition without a leader, or one that was deleted."""
    picture = group(member("one", [0, 1]))
    lags = {("orders", 0): 5, ("orders", 1): None, ("gone", 3): None}
    evidence = {
        "lags": lags,
        "unavailable": frozenset({("orders", 1), ("gone", 3)}),
        "partition_counts": {"orders": 2},
    }
    assert _group(picture, **evidence) == [
        "lag ≥ 5 (2 partitions unavailable)",
        "the group has commits for gone 3, which no longer exist",
        "the end of orders 1 can't be read now, for example without a leader, so there is no lag to tell",
    ]
    assert _member("one", picture, **evidence)[-1] == "lag ≥ 5 (1 partition unavailable), most of it in orders-0"
