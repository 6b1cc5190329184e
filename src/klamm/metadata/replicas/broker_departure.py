"""Decides what happens to partitions with several replicas when a broker goes, stops or comes back.

A partition with one replica keeps its leader while the broker is away: no other broker has its records.

Source: `ReplicationControlManager.handleBrokerFenced`, `handleBrokerInControlledShutdown`, `handleBrokerUnfenced` and
`handleUncleanBrokerShutdown` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Planning
from klamm.metadata.replicas.partition_change import ReplicaRules, change_partition, heir_of
from klamm.metadata.replicas.partition_changes import PartitionChanges
from klamm.metadata.replicas.replica_rules import may_lead, rules_of
from klamm.protocol.types import BrokerId

__all__ = ["plan_upkeep", "without_run_of"]


def plan_upkeep(
    image: MetadataImage, limit: int, *, is_unclean_allowed: bool = False, elects_unclean: bool = True
) -> Planning[int]:
    """Plans new leaders and in-sync replicas for the partitions whose brokers have gone, stop, or are back.

    At most `limit` keys are changed or compared, so that a transaction has room for them; the result is the number of
    partitions that change. `is_unclean_allowed`: see `allows_unclean_election`. Without `elects_unclean`, a partition
    for which only an unclean election is left gets no leader.
    """
    changes = PartitionChanges(image, limit)
    for topic in image.topics.values():
        for partition, changed in _changes(image, topic, is_unclean_allowed, elects_unclean):
            if not changes.add(topic, partition, changed):
                return changes.plan(len(changes))
            yield
        yield
    return changes.plan(len(changes))


def _changes(
    image: MetadataImage, topic: TopicImage, is_unclean_allowed: bool, elects_unclean: bool
) -> Generator[tuple[PartitionImage, PartitionImage], None, None]:
    rules: ReplicaRules | None = None
    for partition in topic.partitions:
        if len(partition.replicas) == 1:
            continue
        isr = tuple(broker_id for broker_id in partition.isr if may_lead(image, broker_id))
        if isr == partition.isr and partition.leader in isr:
            continue
        if rules is None:
            rules = rules_of(image, topic, is_unclean_allowed=is_unclean_allowed)
            if not elects_unclean:
                rules = replace(rules, is_unclean_allowed=False)
        changed = change_partition(partition, rules, isr=isr)
        if changed is not partition:
            yield partition, changed


def without_run_of(
    partition: PartitionImage,
    rules: ReplicaRules,
    broker_id: BrokerId,
    *,
    has_kept_all: bool,
    has_log: bool = True,
) -> PartitionImage:
    """Returns the partition after the broker's latest run has lost its places: the next run has not fetched yet.

    Otherwise the next run could be elected although a power failure took records that it had acknowledged. If it has
    kept all of them (`has_kept_all`), it stays an eligible leader replica. It does not become one here: `plan_upkeep`
    decides this before, with the guard that this needs.

    No other leader is elected here, because the registration does not depend on the runs of other brokers:
    `plan_upkeep` does it as soon as the broker is live.

    Without a log (`has_log`) the broker holds nothing, however it stopped: its disk was replaced, for example. Then it
    is not the last known leader either. Apache Kafka would elect it with an empty log.
    """
    others_may_lead = rules.may_lead
    rules = replace(rules, may_lead=lambda other: other == partition.leader != broker_id and others_may_lead(other))
    isr = tuple(each for each in partition.isr if each != broker_id)
    may_be_eligible = has_kept_all and has_log and broker_id not in partition.isr
    changed = change_partition(partition, rules, isr=isr, unclean_stops=() if may_be_eligible else (broker_id,))
    if has_log or changed.last_known_leader != broker_id:
        return changed
    heir = heir_of(changed.isr, changed.elr)
    return replace(changed, last_known_leader=heir, partition_epoch=partition.partition_epoch + 1)
