"""Decides whether the in-sync replicas of a partition change as its leader proposes (AlterPartition, KIP-497).

The order of the checks and the error codes are those of `ReplicationControlManager.validateAlterPartitionData` of
Apache Kafka 4.3, without its two checks of the recovery state (KIP-704). They refuse a leader that says that it still
recovers from an unclean election. Kafka's leaders never say this in a proposal, and klamm's proposals have no such
field: a change of the in-sync replicas ends the recovery. The decision depends on the run of the leader, and on the run
of each replica that joins (KIP-841, KIP-903): a replica that has started again since its last Fetch may have lost
records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from klamm.metadata.entries import live_key, put_partition, topic_key
from klamm.metadata.image import MetadataImage, PartitionImage
from klamm.metadata.metadata_store import Change, Plan
from klamm.metadata.replicas.eligible_leaders import guard_change, makes_eligible
from klamm.metadata.replicas.partition_change import change_partition
from klamm.metadata.replicas.replica_rules import rules_of
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

__all__ = ["IsrOutcome", "IsrProposal", "plan_isr_change", "plan_isr_changes"]

_ANY_EPOCH = -1

IsrOutcome: TypeAlias = "PartitionImage | KafkaError"
"""The partition after the change, or the reason for which it does not change."""


class IsrProposal(NamedTuple):
    """The in-sync replicas that a leader proposes, each with the epoch of its broker's run (-1: not checked)."""

    topic_id: TopicId
    index: PartitionIndex  # type: ignore[assignment]  # Kafka's name, and tuple.index has no use here
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: Sequence[tuple[BrokerId, int]]


def plan_isr_changes(image: MetadataImage, proposals: Sequence[IsrProposal], room: int) -> Plan[list[IsrOutcome]]:
    """Plans as many of the changes, in order, as one transaction of `room` keys can hold: one at least.

    The result has an outcome for each proposal that is decided. No proposal depends on the others. Two proposals for a
    partition need two plans.
    """
    outcomes: list[IsrOutcome] = []
    changes: dict[str, Change] = {}
    keys: set[str] = set()
    partitions: set[tuple[TopicId, int]] = set()
    for proposal in proposals:
        if (proposal.topic_id, proposal.index) in partitions:
            break
        partitions.add((proposal.topic_id, proposal.index))
        try:
            plan = plan_isr_change(image, proposal)
        except KafkaError as error:
            outcomes.append(error)
            continue
        needed = keys.union((change.key for change in plan.changes), plan.reads)
        if len(needed) > room and changes:
            break
        keys = needed
        changes |= {change.key: change for change in plan.changes}
        outcomes.append(plan.result)
    return Plan(outcomes, list(changes.values()), [key for key in keys if key not in changes])


def plan_isr_change(image: MetadataImage, proposal: IsrProposal) -> Plan[PartitionImage]:
    """Plans the change; the result is the partition after it.

    Raises KafkaError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_CONTROLLER if the image is older than the
    proposal, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION for an old partition epoch, INELIGIBLE_REPLICA,
    INVALID_REQUEST.
    """
    topic = image.topics_by_id.get(proposal.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= proposal.index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[proposal.index]
    _check(image, partition, proposal)
    wanted = [broker_id for broker_id, _ in proposal.isr]
    changed = change_partition(partition, rules_of(image, topic), isr=wanted)
    if changed is partition:
        return Plan(partition)
    joining = [broker_id for broker_id in changed.isr if broker_id not in partition.isr]
    runs = (live_key(broker_id) for broker_id in (proposal.leader, changed.leader, *joining))
    reads = dict.fromkeys(runs)
    changes = [put_partition(topic.topic_id, changed)]
    if makes_eligible(partition, changed):
        changes.append(guard_change(image))
        reads[topic_key(topic.name)] = None
    return Plan(changed, changes, list(reads))


def _check(image: MetadataImage, partition: PartitionImage, proposal: IsrProposal) -> None:
    leader_epoch = f"the leader epoch is {partition.leader_epoch}, not {proposal.leader_epoch}"
    partition_epoch = f"the partition epoch is {partition.partition_epoch}, not {proposal.partition_epoch}"
    if proposal.leader_epoch > partition.leader_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, leader_epoch)
    if proposal.partition_epoch > partition.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, partition_epoch)
    if proposal.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, leader_epoch)
    if proposal.leader != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {proposal.leader} does not lead the partition")
    if proposal.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, partition_epoch)
    ids = [broker_id for broker_id, _ in proposal.isr]
    if len(set(ids)) != len(ids) or not set(ids) <= set(partition.replicas):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the in-sync replicas {ids} are not of {list(partition.replicas)}")
    if proposal.leader not in ids:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the in-sync replicas {ids} lack the leader {proposal.leader}")
    for broker_id, epoch in proposal.isr:
        broker = image.brokers.get(broker_id)
        if broker is None:
            reason = "is not live"
        elif broker.is_stopping:
            reason = "is about to stop"
        elif epoch not in (_ANY_EPOCH, broker.epoch):
            reason = f"has started again with epoch {broker.epoch} since it fetched with epoch {epoch}"
        else:
            continue
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {broker_id} {reason}")
