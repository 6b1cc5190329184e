"""Tests of reconciliation: each member revokes first and is assigned then, at its own pace."""

from __future__ import annotations

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, Beat, ConsumerDriver, name_of, owned, slow
from tests.unit.core.group.painted_topics import PaintedTopics, topic_id

from klamm.core.group.consumer.group_state import ConsumerGroupState, MemberState
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.consumer.reconciliation import Reconciliation
from klamm.core.group.events import GroupIsStable, MemberAssigned
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_heartbeat_request import TopicPartitions
from klamm.protocol.types import PartitionIndex


def test_new_member_waits_until_its_partitions_are_let_go() -> None:
    """A new member gets the new epoch at once, and its partitions when their owner has revoked them."""
    driver = ConsumerDriver()
    driver.enter("a")
    joined = driver.enter("b")
    assert (joined.epoch, joined.assigned) == (3, {})
    assert driver.member("b").state is MemberState.UNRELEASED_PARTITIONS
    asked = driver.beat("a", 2)
    assert (asked.epoch, asked.assigned) == (2, {EVENTS: [0, 1, 2]})
    assert driver.member("a").state is MemberState.UNREVOKED_PARTITIONS
    assert driver.consumer_state() is ConsumerGroupState.RECONCILING
    assert driver.beat("b", 3).assigned is None
    assert driver.owner(3) == "a"
    done = driver.beat("a", 2, topic_partitions=owned(events=[0, 1, 2]))
    assert (done.epoch, done.assigned) == (3, None)
    assert driver.owner(3) is None
    assert driver.beat("b", 3).assigned == {EVENTS: [3, 4, 5]}
    assert driver.consumer_state() is ConsumerGroupState.STABLE


def test_member_that_does_not_say_what_it_has_may_have_all() -> None:
    """Partitions stay with a member until it reports that it revoked all of them."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.beat("a", 2)
    assert driver.beat("a", 2).epoch == 2
    assert driver.beat("a", 2, topic_partitions=owned(events=[0, 1, 2, 5])).epoch == 2
    assert driver.beat("b", 3).assigned is None


def test_member_that_says_at_once_what_it_keeps_goes_on_at_once() -> None:
    """A member that reports no partition to revoke gets the new epoch at once."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    assert driver.beat("a", 2, topic_partitions=owned(events=[0, 1])).epoch == 3


def test_unaffected_members_never_stop() -> None:
    """A member keeps all its partitions when another member leaves (I19)."""
    driver = ConsumerDriver()
    for member_id in "abc":
        driver.enter(member_id)
        driver.settle()
    before = driver.assigned("a")
    driver.go("c")
    driver.settle()
    told = [event.assigned for event in driver.happened(MemberAssigned) if event.member_id == "a"][-1]
    assert set(before[EVENTS]) <= told[EVENTS]


def test_member_may_be_asked_again_before_it_is_done() -> None:
    """A new target during a revocation makes the next revocation from the partitions that the member still has."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.beat("a", 2)
    driver.enter("c")
    assert driver.beat("a", 2).assigned is None
    next_step = driver.beat("a", 2, topic_partitions=owned(events=[0, 1, 2]))
    assert (next_step.epoch, next_step.assigned) == (2, {EVENTS: [0, 1]})
    assert driver.beat("a", 2, topic_partitions=owned(events=[0, 1])).epoch == 4
    driver.settle()
    assert driver.consumer_state() is ConsumerGroupState.STABLE


def test_partition_that_comes_back_before_it_was_let_go_stays_in_use() -> None:
    """A partition stays with the member that was to revoke it if the intended new owner leaves before."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.beat("a", 2)
    driver.go("b")
    back = driver.beat("a", 2, topic_partitions=owned(events=[0, 1, 2]))
    assert (back.epoch, back.assigned) == (4, {EVENTS: [0, 1, 2, 3, 4, 5]})
    assert driver.member("a").assigned[topic_id(EVENTS)] == {0: 2, 1: 2, 2: 2, 3: 4, 4: 4, 5: 4}


def test_partitions_remember_since_when_they_are_assigned() -> None:
    """Each partition keeps the epoch in which the member got it, over later epochs and restarts (KIP-1251)."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8, audit=2))
    driver.beat("a", 2)
    assert driver.member("a").assigned[topic_id(EVENTS)] == {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 3, 7: 3}
    assert driver.reload().member("a") == driver.member("a")


def test_group_at_rest_is_announced_once() -> None:
    """Each epoch has one event `GroupIsStable`."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.settle()
    assert [event.epoch for event in driver.happened(GroupIsStable)] == [2, 3]


# Unsubscribed topics, while the new target waits for the assignment interval


def changes_its_mind(topic_partitions: list[TopicPartitions] | None) -> tuple[ConsumerDriver, Beat]:
    """Lets a member with two topics unsubscribe from one of them within the assignment interval."""
    driver = ConsumerDriver(settings=slow())
    driver.enter("a", names=[EVENTS, "audit"])
    driver.advance(100)
    answer = driver.beat("a", 2, subscribed_topic_names=["audit"], topic_partitions=topic_partitions)
    assert driver.consumer_group().target_epoch == 2
    return driver, answer


def test_topic_that_is_read_no_more_is_let_go_before_the_target_says_so() -> None:
    """A member revokes the partitions of an unsubscribed topic before the next target is computed."""
    driver, answer = changes_its_mind(None)
    assert (answer.epoch, answer.assigned) == (2, {"audit": [0, 1]})
    assert driver.member("a").state is MemberState.UNREVOKED_PARTITIONS
    assert driver.owner(0) == "a"
    done = driver.beat("a", 2, topic_partitions=owned(audit=[0, 1]))
    assert (done.epoch, driver.owner(0)) == (2, None)
    driver.advance(1000)
    assert driver.beat("a", 2).epoch == 3


def test_topic_that_was_let_go_already_is_just_gone() -> None:
    """An unsubscribed topic whose partitions the member has dropped already is removed at once."""
    driver, answer = changes_its_mind(owned(audit=[0, 1]))
    assert (answer.epoch, answer.assigned) == (2, {"audit": [0, 1]})
    assert driver.member("a").state is MemberState.STABLE
    assert driver.owner(0) is None


def test_more_may_be_taken_away_while_something_is_being_let_go() -> None:
    """A second unsubscription during a revocation adds its partitions to the pending revocations."""
    driver, _ = changes_its_mind(owned(events=range(6), audit=[0, 1]))
    more = driver.beat("a", 2, subscribed_topic_names=[])
    assert more.assigned == {}
    member = driver.member("a")
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    assert {name_of(topic): len(partitions) for topic, partitions in member.pending_revocation.items()} == {
        EVENTS: 6,
        "audit": 2,
    }
    same = driver.beat("a", 2, subscribed_topic_names=["nowhere"])
    assert same.assigned is None
    assert driver.reload().shard.store == driver.shard.store


def reconcile(member: ConsumerGroupMember, *, owned_nothing: bool | None) -> ConsumerGroupMember:
    """Returns the member after one step towards a target of two unowned partitions at epoch 9."""
    return Reconciliation(
        member=member,
        target_epoch=9,
        target={topic_id(EVENTS): frozenset({PartitionIndex(0), PartitionIndex(1)})},
        has_subscription_changed=False,
        is_subscribed_to=lambda _: True,
        owner=lambda *_: None,
        owned=[] if owned_nothing else None,
    ).next_member()


def test_state_of_a_later_version_begins_anew() -> None:
    """A member with a state of a later version is fenced until it reports no partitions, and then starts again."""
    strange = ConsumerGroupMember("a", member_epoch=5, state=MemberState(99))
    assert strange.state is MemberState.UNKNOWN
    with pytest.raises(KafkaError) as refused:
        reconcile(strange, owned_nothing=None)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    anew = reconcile(strange, owned_nothing=True)
    assert (anew.state, anew.member_epoch, anew.previous_member_epoch) == (MemberState.STABLE, 9, 5)
    assert anew.assigned == {topic_id(EVENTS): {0: 9, 1: 9}}
