"""How members come to what they are to have: revoke first, then assign, each at its own pace."""

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
    """It has the new epoch at once, and the partitions one by one as they are free."""
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
    """Its silence frees nothing, and neither does a part of it."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.beat("a", 2)
    assert driver.beat("a", 2).epoch == 2
    assert driver.beat("a", 2, topic_partitions=owned(events=[0, 1, 2, 5])).epoch == 2
    assert driver.beat("b", 3).assigned is None


def test_member_that_says_at_once_what_it_keeps_goes_on_at_once() -> None:
    """It had let go before it was asked."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    assert driver.beat("a", 2, topic_partitions=owned(events=[0, 1])).epoch == 3


def test_unaffected_members_never_stop() -> None:
    """I19: of three members with two partitions each, one that keeps its own is told nothing but the new epoch."""
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
    """What is to be let go is worked out anew from what it still has."""
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
    """The member that was to have it left: the one that still has it goes on, and nobody else had it meanwhile."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.beat("a", 2)
    driver.go("b")
    back = driver.beat("a", 2, topic_partitions=owned(events=[0, 1, 2]))
    assert (back.epoch, back.assigned) == (4, {EVENTS: [0, 1, 2, 3, 4, 5]})
    assert driver.member("a").assigned[topic_id(EVENTS)] == {0: 2, 1: 2, 2: 2, 3: 4, 4: 4, 5: 4}


def test_partitions_remember_since_when_they_are_assigned() -> None:
    """KIP-1251: the epoch of the target that brought them, over later epochs and restarts."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8, audit=2))
    driver.beat("a", 2)
    assert driver.member("a").assigned[topic_id(EVENTS)] == {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 3, 7: 3}
    assert driver.reload().member("a") == driver.member("a")


def test_group_at_rest_is_announced_once() -> None:
    """With the record that brings it there."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.settle()
    assert [event.epoch for event in driver.happened(GroupIsStable)] == [2, 3]


# Topics that are read no more, while a target that says so has to wait


def changes_its_mind(topic_partitions: list[TopicPartitions] | None) -> tuple[ConsumerDriver, Beat]:
    """A member with two topics reads one of them no more, within the interval between two targets."""
    driver = ConsumerDriver(settings=slow())
    driver.enter("a", names=[EVENTS, "audit"])
    driver.advance(100)
    answer = driver.beat("a", 2, subscribed_topic_names=["audit"], topic_partitions=topic_partitions)
    assert driver.consumer_group().target_epoch == 2
    return driver, answer


def test_topic_that_is_read_no_more_is_let_go_before_the_target_says_so() -> None:
    """The member must not go on with what it did not ask for."""
    driver, answer = changes_its_mind(None)
    assert (answer.epoch, answer.assigned) == (2, {"audit": [0, 1]})
    assert driver.member("a").state is MemberState.UNREVOKED_PARTITIONS
    assert driver.owner(0) == "a"
    done = driver.beat("a", 2, topic_partitions=owned(audit=[0, 1]))
    assert (done.epoch, driver.owner(0)) == (2, None)
    driver.advance(1000)
    assert driver.beat("a", 2).epoch == 3


def test_topic_that_was_let_go_already_is_just_gone() -> None:
    """Nothing has to be waited for."""
    driver, answer = changes_its_mind(owned(audit=[0, 1]))
    assert (answer.epoch, answer.assigned) == (2, {"audit": [0, 1]})
    assert driver.member("a").state is MemberState.STABLE
    assert driver.owner(0) is None


def test_more_may_be_taken_away_while_something_is_being_let_go() -> None:
    """It adds up."""
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
    """One step towards a target of two partitions at epoch 9, which nobody has."""
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
    """Once the member has dropped everything; before, it is fenced."""
    strange = ConsumerGroupMember("a", member_epoch=5, state=MemberState(99))
    assert strange.state is MemberState.UNKNOWN
    with pytest.raises(KafkaError) as refused:
        reconcile(strange, owned_nothing=None)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    anew = reconcile(strange, owned_nothing=True)
    assert (anew.state, anew.member_epoch, anew.previous_member_epoch) == (MemberState.STABLE, 9, 5)
    assert anew.assigned == {topic_id(EVENTS): {0: 9, 1: 9}}
