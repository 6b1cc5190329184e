"""Tests how partitions change: who is in sync, who is eligible, who leads (KIP-966)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from klamm.metadata.image import NO_BROKER, PartitionImage
from klamm.metadata.replicas.partition_change import Election, ReplicaRules, change_partition
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def partition(leader: int = 1, isr: Any = (1, 2, 3), **others: Any) -> PartitionImage:
    """Returns a partition with replicas 1, 2 and 3 in leader epoch 5 and partition epoch 7."""
    others = {key: ids(*value) if isinstance(value, tuple) else value for key, value in others.items()}
    image = PartitionImage(PartitionIndex(0), BrokerId(leader), LeaderEpoch(5), ids(1, 2, 3), ids(*isr), 7)
    return replace(image, **others)


def rules(*live: int, least: int = 2, unclean: bool = False) -> ReplicaRules:
    return ReplicaRules(may_lead=lambda each: each in live, min_insync_replicas=least, is_unclean_allowed=unclean)


def test_nothing_changes_without_a_reason() -> None:
    """The same object is returned, so that nothing is written."""
    before = partition()
    assert change_partition(before, rules(1, 2, 3)) is before
    assert change_partition(before, rules(1, 2, 3), isr=ids(3, 1, 2)) is before


@pytest.mark.parametrize(
    ("before", "live", "isr", "expected"),
    [
        # The leader has gone: the next in-sync replica leads.
        (partition(), (2, 3), (2, 3), (2, (2, 3), ())),
        # A follower has gone: the leader stays, in its epoch.
        (partition(), (1, 2), (1, 2), (1, (1, 2), ())),
        # Fewer in-sync replicas than required: the one that leaves stays eligible.
        (partition(isr=(1, 2)), (1,), (1,), (1, (1,), (2,))),
        # The last one goes: no leader, and it stays eligible.
        (partition(isr=(1,), elr=(2,)), (), (), (NO_BROKER, (), (1, 2))),
        # An eligible leader replica comes back, and is alone in sync at first.
        (partition(NO_BROKER, (), elr=(1, 2)), (2, 3), (), (2, (2,), (1,))),
        # An eligible leader replica comes before an in-sync one in the order of the replicas, but must not lead.
        (partition(2, (2,), elr=(1,)), (1,), (2,), (NO_BROKER, (2,), (1,))),
        # A replica that is neither in sync nor eligible must not lead.
        (partition(NO_BROKER, (), elr=(1, 2)), (3,), (), (NO_BROKER, (), (1, 2))),
        # Enough in-sync replicas again: nobody else is eligible.
        (partition(isr=(1,), elr=(2,)), (1, 3), (1, 3), (1, (1, 3), ())),
    ],
)
def test_leader_and_eligible_replicas_follow_the_in_sync_replicas(
    before: PartitionImage, live: Any, isr: Any, expected: tuple[int, Any, Any]
) -> None:
    """The leader is elected from the in-sync replicas, then from the eligible leader replicas."""
    after = change_partition(before, rules(*live), isr=ids(*isr))
    leader, expected_isr, elr = expected
    assert (after.leader, after.isr, after.elr) == (leader, ids(*expected_isr), ids(*elr))
    assert after.leader_epoch == before.leader_epoch + (after.leader != before.leader)
    assert after.partition_epoch == before.partition_epoch + (after != before)
    assert not after.is_recovering


def test_replica_that_stopped_uncleanly_is_not_eligible() -> None:
    """It may have lost records that it had acknowledged. The last known leader is remembered."""
    after = change_partition(partition(isr=(1,)), rules(), isr=(), unclean_stops=ids(1))
    assert (after.leader, after.isr, after.elr, after.last_known_leader) == (NO_BROKER, (), (), 1)


def test_last_known_leader_is_elected_when_no_replica_is_certain() -> None:
    """With both sets empty, the last known leader is the best guess. The partition tells that records may be gone."""
    before = partition(NO_BROKER, (), last_known_leader=BrokerId(2))
    assert change_partition(before, rules(1, 3)) is before
    after = change_partition(before, rules(1, 2, 3))
    assert (after.leader, after.isr, after.is_recovering, after.last_known_leader) == (2, ids(2), True, NO_BROKER)
    settled = change_partition(after, rules(1, 2, 3), isr=ids(1, 2))
    assert not settled.is_recovering


def test_last_known_leader_is_not_elected_next_to_eligible_ones() -> None:
    """An eligible leader replica holds every committed record, the last known leader may not."""
    before = partition(NO_BROKER, (), elr=(1,), last_known_leader=BrokerId(2))
    assert change_partition(before, rules(2, 3)) is before


@pytest.mark.parametrize(
    ("adding", "removing", "isr", "expected"),
    [
        # Fewer replicas: those that remain must all be in sync.
        ((), (2,), (1, 2), None),
        ((), (2,), (1, 2, 3), ((1, 3), (1, 3))),
        ((3,), (1, 2), (1, 2, 3), ((3,), (3,))),
        # As many replicas as before: those that are added must be in sync.
        ((3,), (1,), (1, 2), None),
        ((3,), (1,), (1, 3), ((2, 3), (3,))),
        # More replicas.
        ((3,), (), (1, 2), None),
        ((3,), (), (1, 3), ((1, 2, 3), (1, 3))),
    ],
)
def test_reassignment_ends_with_enough_replicas_in_sync(
    adding: Any, removing: Any, isr: Any, expected: tuple[Any, Any] | None
) -> None:
    """Fewer replicas must not mean fewer replicas in sync than replicas: the removal of one that is in sync would leave
    the records to those that are left (`PartitionReassignmentReplicas.maybeCompleteReassignment`)."""
    before = partition(isr=(1,), adding=adding, removing=removing)
    after = change_partition(before, rules(1, 2, 3), isr=ids(*isr))
    if expected is None:
        assert (after.replicas, after.isr) == (before.replicas, ids(*isr))
        assert (after.adding, after.removing) == (before.adding, before.removing)
    else:
        replicas, in_sync = expected
        assert (after.replicas, after.isr) == (ids(*replicas), ids(*in_sync))
        assert (after.adding, after.removing) == ((), ())


def test_removed_leader_is_not_the_last_known_one() -> None:
    """It deletes its log. If it comes back as an added replica, it must not be elected with an empty log."""
    begun = partition(isr=(1, 3), adding=(3,), removing=(1,))
    # Broker 3 has gone, and is still in sync.
    ended = change_partition(begun, rules(1, 2))
    assert (ended.replicas, ended.leader, ended.isr, ended.last_known_leader) == (ids(2, 3), NO_BROKER, ids(3), 3)
    lost = change_partition(ended, rules(1, 2), isr=(), unclean_stops=ids(3))
    assert (lost.isr, lost.elr, lost.last_known_leader) == ((), (), 3)
    added = change_partition(lost, rules(1, 2), replicas=ids(1, 2, 3), adding=ids(1))
    assert added.leader == NO_BROKER
    back = change_partition(added, rules(1, 2, 3))
    assert (back.leader, back.isr, back.is_recovering) == (3, ids(3), True)


def test_last_known_leader_that_is_removed_has_an_heir() -> None:
    """A reassignment may end while there is no leader."""
    before = partition(NO_BROKER, (3,), elr=(2,), last_known_leader=BrokerId(1), adding=(3,), removing=(1,))
    after = change_partition(before, rules(1))
    assert (after.replicas, after.leader, after.isr, after.last_known_leader) == (ids(2, 3), NO_BROKER, ids(3), 3)


def test_unclean_election_only_where_it_is_allowed() -> None:
    """`unclean.leader.election.enable`, or an unclean election on request, prefers availability."""
    before = partition(NO_BROKER, (), elr=(1,))
    assert change_partition(before, rules(3)) is before
    for after in (
        change_partition(before, rules(3, unclean=True)),
        change_partition(before, rules(3), election=Election.UNCLEAN),
    ):
        assert (after.leader, after.isr, after.elr, after.is_recovering) == (3, ids(3), (), True)


def test_eligible_replica_leads_before_an_unclean_election() -> None:
    """The in-sync replicas have gone, and the metadata still count them. The eligible leader replica is back, and has
    every committed record; another live replica comes first in the order of the replicas, and may lack some."""
    before = partition(2, (2,), elr=(3,))
    for after in (
        change_partition(before, rules(1, 3, unclean=True)),
        change_partition(before, rules(1, 3), election=Election.UNCLEAN),
    ):
        assert (after.leader, after.isr, after.elr, after.is_recovering) == (3, ids(3), ids(2), False)


def test_preferred_election() -> None:
    """The first replica leads if it is in sync; otherwise the leader stays."""
    before = partition(2)
    assert change_partition(before, rules(1, 2, 3)) is before
    assert change_partition(before, rules(1, 2, 3), election=Election.PREFERRED).leader == 1
    assert change_partition(before, rules(2, 3), election=Election.PREFERRED) is before
    lagging = partition(2, (2, 3))
    assert change_partition(lagging, rules(1, 2, 3), election=Election.PREFERRED) is lagging
    eligible = partition(2, (2,), elr=(1,))
    assert change_partition(eligible, rules(1, 2, 3), election=Election.PREFERRED) is eligible


def test_in_sync_replicas_lead_before_eligible_ones() -> None:
    """The eligible leader replica is first in the order of the replicas, but may lack records of the in-sync one."""
    before = partition(3, (2, 3), elr=(1,))
    after = change_partition(before, rules(1, 2, least=3), isr=ids(2))
    assert (after.leader, after.isr, after.elr) == (2, ids(2), ids(1, 3))


def test_reassignment_ends_when_the_added_replicas_are_in_sync() -> None:
    """Until then the old replicas stay. A replica that is removed is fenced by a new leader epoch."""
    begun = change_partition(partition(), rules(1, 2, 3, 4), replicas=ids(4, 1, 2, 3), adding=ids(4), removing=ids(1))
    assert (begun.replicas, begun.isr, begun.leader, begun.leader_epoch) == (ids(4, 1, 2, 3), ids(1, 2, 3), 1, 5)
    ended = change_partition(begun, rules(1, 2, 3, 4), isr=ids(1, 2, 3, 4))
    assert (ended.replicas, ended.adding, ended.removing) == (ids(4, 2, 3), (), ())
    assert (ended.isr, ended.leader, ended.leader_epoch) == (ids(4, 2, 3), 4, 6)


def test_reassignment_that_only_removes_ends_at_once() -> None:
    """There is nothing to wait for."""
    after = change_partition(partition(), rules(1, 2, 3), removing=ids(3))
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == (ids(1, 2), ids(1, 2), 1, 6)


def _moved(image: PartitionImage, number: int) -> PartitionImage:
    """Returns the partition with a reassignment that removes a replica or adds it again; 0 is none."""
    others = tuple(each for each in image.replicas if each != number)
    if number == 0 or not others:
        return image
    if number in image.replicas:
        return replace(image, removing=ids(number), adding=())
    return replace(image, replicas=(*image.replicas, BrokerId(number)), adding=ids(number), removing=())


@settings(max_examples=examples(400), deadline=None)
@given(
    events=st.lists(
        st.tuples(
            st.sets(st.integers(1, 4)),
            st.sets(st.integers(1, 4)),
            st.sets(st.integers(1, 4)),
            st.booleans(),
            st.integers(0, 4),
        ),
        min_size=1,
        max_size=12,
    ),
    least=st.integers(1, 4),
)
def test_elections_are_clean_or_recorded(events: list[Any], least: int) -> None:
    """Whatever happens: the leader is a live replica and in sync, the sets are apart, epochs never fall, and a leader
    from outside of both sets is recorded. A replica that was removed and added again holds nothing until it was in
    sync: it is not the last known leader, and leads only where unclean elections are allowed."""
    empty: set[int] = set()
    image = PartitionImage(PartitionIndex(0), BrokerId(1), LeaderEpoch(0), ids(1, 2, 3, 4), ids(1, 2, 3, 4))
    for live, isr, unclean_stops, unclean, moved in events:
        image = _moved(image, moved)
        wanted = [each for each in image.isr if each in live] + [each for each in isr if each in live]
        if moved:
            wanted = [*image.isr]  # also of brokers that have just gone
        elif image.leader == NO_BROKER:
            wanted = []
        after = change_partition(
            image,
            rules(*live, least=least, unclean=unclean),
            isr=wanted,
            unclean_stops=ids(*(unclean_stops - live)),
        )
        assert not set(after.isr) & set(after.elr)
        assert set(after.isr) | set(after.elr) <= set(after.replicas)
        if after.leader != NO_BROKER:
            assert after.leader in live
            assert after.leader in after.isr
            if after.leader != image.leader and after.leader not in {*image.isr, *image.elr, *wanted}:
                assert after.is_recovering
        if len(after.isr) >= min(least, len(after.replicas)):
            assert after.elr == ()
        has_lost_replica = not set(image.replicas) <= set(after.replicas)
        assert after.leader_epoch == image.leader_epoch + (after.leader != image.leader or has_lost_replica)
        assert after.partition_epoch == image.partition_epoch + (after != image)
        empty -= set(wanted) & set(image.replicas)
        if after.leader in empty:
            assert unclean
        empty -= set(after.isr)
        empty |= set(image.replicas) - set(after.replicas)
        assert after.last_known_leader == NO_BROKER or after.last_known_leader in {*after.replicas} - empty
        image = after
