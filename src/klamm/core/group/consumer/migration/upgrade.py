"""Upgrade: a classic group of consumers becomes a consumer group while its members continue (KIP-848).

The first member of the consumer protocol triggers it. The generation becomes the epoch of the group, of its target and
of all members. The leader's last assignment becomes the assignment of every member. Members keep the classic protocol
until each of them joins again with the consumer protocol. After Apache Kafka's `validateOnlineUpgrade`,
`convertToConsumerGroup` and `ConsumerGroup.fromClassicGroup`.

A cooperative member may have more partitions than the assignment: those that it was just told to revoke, and all if
a rebalance began again. In Kafka these partitions have no owner after the upgrade, so another member gets them at once.
Here their member owns them until it joins again (I15).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from klamm.core.coordinator.shard_contract import CoordinatorRecord, Result
from klamm.core.group.classic.classic_events import needed
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.member import Member
from klamm.core.group.classic.rebalance import answer_parked_requests
from klamm.core.group.consumer.changed_subscriptions import at_present
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import (
    current_assignment_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from klamm.core.group.consumer.consumer_groups import ConsumerGroups, Decision
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import NO_PARTITIONS, Assigned, ClassicMetadata, ConsumerGroupMember, Target
from klamm.core.group.consumer.migration.embedded_assignment import CustomAssignor, owned_partitions, target
from klamm.core.group.consumer.timers import session_timer
from klamm.core.group.consumer.topic_index import TopicIndex
from klamm.core.group.events import Cause
from klamm.core.group.follow_ups import if_refused
from klamm.protocol.consumer_protocol import decode_subscription
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.types import Millis, PartitionIndex, TopicId

__all__ = ["is_settled", "upgrade"]

_POLICIES = ("bidirectional", "upgrade")


def upgrade(decision: Decision, classic: ClassicGroup) -> ConsumerGroup:
    """Writes the records that turn a classic group into a consumer group, and returns the new group.

    Requests parked in the classic group get REBALANCE_IN_PROGRESS, so that their members join again. Raises
    GROUP_ID_NOT_FOUND if the group can't be upgraded, or must not.
    """
    groups, result, now = decision
    _check(groups, classic)
    try:
        records = list(_records(groups, classic))
    except MalformedMessage as error:
        raise _refusal(classic, "the embedded consumer protocol is malformed.") from error
    except CustomAssignor as error:
        raise _refusal(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        ) from error
    waiting = [member for member in classic.members.values() if member.is_alive_while_waiting]
    for member in classic.members.values():
        # The timers of the classic group stay: they are needed if the records are refused, else they find no group.
        answer_parked_requests(classic, member, ErrorCode.REBALANCE_IN_PROGRESS, result)
        result.arm(session_timer(classic.group_id, member.member_id), member.session_timeout_ms)
    if_refused(result, partial(_watch_again, waiting))
    result.records += classic.tombstones()
    result.records += records
    detail = f"group {classic.group_id} speaks the consumer protocol from now on"
    result.events.append(needed(classic, Cause.PROTOCOL_CHANGED, None, detail, now))
    # The rest of the decision uses the group that a replay of the records will make.
    scratch = ConsumerStore()
    for record in records:
        scratch.replay(record.key, record.value)
    return scratch.groups[classic.group_id]


def is_settled(groups: ConsumerGroups, group: ConsumerGroup) -> bool:
    """Returns whether the leader's last assignment covers every partition.

    If not, the group needs a new target, even if the member that triggered the upgrade only took the place of a static
    member: a rebalance was in progress, or a topic has grown and the leader does not know it yet.
    """
    assigned = Counter(topic_id for topic_id, _ in _partitions(group.target.values()))
    for name in group.subscribed_topics():
        facts = groups.topics.by_name(name)
        if facts is not None and assigned[facts.topic_id] < facts.partition_count:
            return False
    return True


def _partitions(targets: Iterable[Target]) -> set[tuple[TopicId, PartitionIndex]]:
    return {(topic_id, index) for wanted in targets for topic_id, partitions in wanted.items() for index in partitions}


def _watch_again(waiting: Iterable[Member], again: Result) -> None:
    """Arms the sessions of members that no longer wait for an answer: they may have expired without effect meanwhile.

    All others still have their timers. Refused upgrades must not extend them: a client may try again and again.
    """
    for member in waiting:
        again.arm(member.session_timer, member.session_timeout_ms)


def _check(groups: ConsumerGroups, classic: ClassicGroup) -> None:
    if groups.config.consumer_migration_policy not in _POLICIES:
        raise _refusal(classic, "online upgrade is disabled.")
    if not classic.uses_consumer_protocol:
        raise _refusal(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > groups.config.consumer_max_size:
        raise _refusal(classic, "the group size exceeds the consumer group maximum size.")


def _refusal(classic: ClassicGroup, why: str) -> KafkaError:
    text = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _records(groups: ConsumerGroups, classic: ClassicGroup) -> list[CoordinatorRecord]:
    """Raises MalformedMessage or CustomAssignor."""
    group_id, epoch = classic.group_id, classic.generation
    targets = {
        each.member_id: target(groups.topics, each.assignment or each.kept_assignment)
        for each in classic.members.values()
    }
    decoded = {each.member_id: _subscription(classic, each) for each in classic.members.values()}
    revoked = _unassigned(groups, decoded, targets.values(), int(epoch))
    members = [
        _member(classic, each, decoded[each.member_id], targets[each.member_id], revoked.get(each.member_id))
        for each in classic.members.values()
    ]
    # The scratch group has no subscriptions but those of its members, so these alone make the hash of its topics.
    scratch = ConsumerGroup(group_id, TopicIndex())
    for member in members:
        scratch.put_member(member)
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, epoch, at_present(scratch).metadata_hash(groups.topics)),
        *(target_record(group_id, member_id, wanted) for member_id, wanted in targets.items()),
        target_epoch_record(group_id, epoch, Millis(0)),
        *(current_assignment_record(group_id, member) for member in members),
    ]


def _subscription(classic: ClassicGroup, member: Member) -> ConsumerProtocolSubscription:
    # Before its first generation a group has no protocol, and a member that waits for the next generation need not
    # support the present protocol, not even one that has been in the group before. Consumers send the same subscription
    # in each.
    present = classic.protocol_name
    name = present if present in member.protocol_names() else member.protocols[0][0]
    return decode_subscription(member.metadata(name))


def _unassigned(
    groups: ConsumerGroups,
    subscriptions: Mapping[str, ConsumerProtocolSubscription],
    targets: Iterable[Target],
    epoch: int,
) -> Mapping[str, Assigned]:
    """Returns the existing partitions that a member had when it joined and that are now assigned to no member.

    If two members list the same partition, the one that joined in a later generation has it.
    """
    taken = _partitions(targets)
    owned: dict[str, dict[TopicId, dict[PartitionIndex, int]]] = {}
    for member_id in sorted(subscriptions, key=lambda each: -subscriptions[each].generation_id):
        for topic in owned_partitions(groups.topics, subscriptions[member_id]):
            topic_id = TopicId(topic.topic_id)
            facts = groups.topics.by_id(topic_id)
            for index in map(PartitionIndex, topic.partitions):
                if facts is not None and 0 <= index < facts.partition_count and (topic_id, index) not in taken:
                    taken.add((topic_id, index))
                    owned.setdefault(member_id, {}).setdefault(topic_id, {})[index] = epoch
    return owned


def _member(
    classic: ClassicGroup,
    member: Member,
    subscription: ConsumerProtocolSubscription,
    wanted: Target,
    to_revoke: Assigned | None,
) -> ConsumerGroupMember:
    epoch = classic.generation
    return ConsumerGroupMember(
        member.member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=MemberState.UNREVOKED_PARTITIONS if to_revoke else MemberState.STABLE,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned={topic_id: dict.fromkeys(partitions, int(epoch)) for topic_id, partitions in wanted.items()},
        pending_revocation=to_revoke or NO_PARTITIONS,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )
