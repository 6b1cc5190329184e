"""Decides what happens to partitions with several replicas when one replica's log can't be used any more.

The log is damaged, or its disk is full or has failed. The broker itself goes on: only the replica gives up its places,
until it can fetch and append again.

Source: `ReplicationControlManager.handleDirectoriesOffline` of Apache Kafka 4.3, for one log instead of a directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from klamm.metadata.entries import live_key, put_broker
from klamm.metadata.image import MetadataImage, PartitionImage
from klamm.metadata.metadata_store import Plan, Planning
from klamm.metadata.replicas.partition_change import ReplicaRules, change_partition
from klamm.metadata.replicas.partition_changes import PartitionChanges
from klamm.metadata.replicas.replica_rules import rules_of
from klamm.protocol.types import BrokerId, TopicPartition

__all__ = ["GivenUp", "plan_distrust", "plan_failed_replicas"]


class GivenUp(NamedTuple):
    """How many of the failed replicas a plan decides about, the first ones in order, and how many partitions change."""

    decided: int
    changed: int


def plan_failed_replicas(
    image: MetadataImage, broker_id: BrokerId, incarnation: str, failed: Sequence[TopicPartition], room: int
) -> Planning[GivenUp]:
    """Plans that the broker's replicas of these partitions neither lead nor are in sync nor eligible.

    At most `room` keys are changed or compared. Each replica must be decided about once: it may be in sync again soon.

    A replica keeps its places if no other replica is in sync or eligible, because no other one may lead then. The
    decision depends on the run of the broker, because a later run starts without places anyway.
    """
    live = image.live.get(broker_id)
    if live is None or live.incarnation != incarnation:
        return Plan(GivenUp(len(failed), 0))
    changes = PartitionChanges(image, room, [broker_id])
    for decided, (name, index) in enumerate(failed):
        yield
        topic = image.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            continue
        partition = topic.partitions[index]
        changed = _without(partition, rules_of(image, topic), broker_id)
        if changed is not partition and not changes.add(topic, partition, changed):
            return changes.plan(GivenUp(decided, len(changes)))
    return changes.plan(GivenUp(len(failed), len(changes)))


def plan_distrust(image: MetadataImage, broker_id: BrokerId, incarnation: str) -> Plan[None]:
    """Plans that the broker's registration names no run, so that the next start counts as one after a power failure.

    Does nothing if the broker is not live with this incarnation.
    """
    live, registered = image.live.get(broker_id), image.registrations.get(broker_id)
    if live is None or live.incarnation != incarnation or registered is None or not registered.latest_run:
        return Plan(None)
    return Plan(None, [put_broker(broker_id, registered.endpoints, registered.rack)], [live_key(broker_id)])


def _without(partition: PartitionImage, rules: ReplicaRules, broker_id: BrokerId) -> PartitionImage:
    isr = tuple(each for each in partition.isr if each != broker_id)
    others = isr or tuple(each for each in partition.elr if each != broker_id)
    if not others or (isr == partition.isr and broker_id not in (*partition.elr, partition.leader)):
        return partition
    others_may_lead = rules.may_lead
    rules = replace(rules, may_lead=lambda other: other != broker_id and others_may_lead(other))
    return change_partition(partition, rules, isr=isr, unclean_stops=(broker_id,))
