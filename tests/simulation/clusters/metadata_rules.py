"""What must hold of each change of a replicated partition in the metadata store, whoever makes the change.

These are the properties of Vanlightly's TLA+ specification of KIP-966 that only the metadata decide
(`ValidControllerState`, `ValidControllerIsrAndElr`), and I6: who is elected, and who joins the in-sync replicas. The
rules are written from the specification, and share no code with klamm's decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.simulation.violation import Violation

from klamm.metadata.image import NO_BROKER, LiveBroker, MetadataImage, PartitionImage, ResourceType, TopicImage
from klamm.protocol.types import BrokerId, TopicPartition

__all__ = ["changed_partitions", "check_change", "check_new_runs", "check_sets", "is_unclean"]

_MIN_ISR = "min.insync.replicas"


def changed_partitions(
    before: MetadataImage, after: MetadataImage
) -> Iterator[tuple[TopicPartition, PartitionImage | None, PartitionImage]]:
    """Yields the replicated partitions that a commit has changed or made, with their state before and after; also those
    with one replica left whose leader may lack committed records."""
    if before.topics is after.topics:
        return
    for name, topic in after.topics.items():
        old = before.topics.get(name)
        if old is topic:
            continue
        if old is not None and old.topic_id != topic.topic_id:
            old = None
        for partition in topic.partitions:
            known = old is not None and partition.index < len(old.partitions)
            earlier = old.partitions[partition.index] if old is not None and known else None
            if earlier is not partition and (len(partition.replicas) > 1 or partition.is_recovering):
                yield TopicPartition(name, partition.index), earlier, partition


def is_unclean(before: PartitionImage, after: PartitionImage) -> bool:
    """Returns whether a change records an election of a leader that may lack committed records."""
    return after.is_recovering and (not before.is_recovering or after.leader_epoch != before.leader_epoch)


def check_sets(image: MetadataImage) -> None:
    """Checks the sets of replicas of all partitions (`ValidControllerIsrAndElr`). Raises Violation."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            if len(partition.replicas) > 1:
                _check_sets(image, topic, partition)


def _check_sets(image: MetadataImage, topic: TopicImage, partition: PartitionImage) -> None:
    name = f"{topic.name}-{partition.index}"
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    if not isr | elr <= replicas or isr & elr:
        raise Violation(6, f"{name} has {_sets(partition)}")
    if partition.leader != NO_BROKER and partition.leader not in isr:
        raise Violation(6, f"{name} is led by broker {partition.leader}, which is not in sync: {_sets(partition)}")
    least = min(_min_isr(image, topic), len(replicas))
    if elr and len(isr) >= least:
        raise Violation(5, f"{name} may commit without its eligible replicas: it needs {least} of {_sets(partition)}")


def _min_isr(image: MetadataImage, topic: TopicImage) -> int:
    of_cluster = image.config_overrides(ResourceType.BROKER, "")
    return int(topic.configs.get(_MIN_ISR) or of_cluster.get(_MIN_ISR) or 1)


def check_change(
    image: MetadataImage,
    where: TopicPartition,
    before: PartitionImage,
    after: PartitionImage,
    *,
    runs_before: Mapping[BrokerId, LiveBroker] | None = None,
) -> frozenset[BrokerId]:
    """Checks a change of a partition (I6); `image` has the brokers after it. Raises Violation.

    `runs_before`: the live brokers before the change, if the topic allows unclean elections; else None.

    Returns the replicas that the leader has added to the in-sync replicas.
    """
    has_new_leader = after.leader not in (NO_BROKER, before.leader)
    if after.leader_epoch < before.leader_epoch or (has_new_leader and after.leader_epoch == before.leader_epoch):
        epochs = f"the leader epoch goes from {before.leader_epoch} to {after.leader_epoch}"
        raise Violation(6, f"broker {after.leader} leads {where} after broker {before.leader}, and {epochs}")
    if after.partition_epoch <= before.partition_epoch:
        raise Violation(6, f"a change of {where} does not raise its partition epoch {before.partition_epoch}")
    joined = frozenset(after.isr) - set(before.isr)
    if has_new_leader and after.leader not in before.isr:
        if runs_before is not None and after.is_recovering:
            _check_unclean(runs_before, image, where, before, after)
            joined -= {after.leader}
        elif _is_elected_otherwise(where, before, after):
            joined -= {after.leader}
    elected = {after.leader} if has_new_leader else set()
    for number in sorted(joined | elected):
        # A decision does not depend on registrations: a broker that is unregistered at the same moment loses its places
        # with the next decision.
        broker = image.live.get(number)
        if broker is None or broker.is_stopping:
            what = "is elected for" if number in elected else "joins the in-sync replicas of"
            raise Violation(6, f"broker {number} {what} {where}, and it is not live, or about to stop")
    return joined


def _is_elected_otherwise(where: TopicPartition, before: PartitionImage, after: PartitionImage) -> bool:
    """Returns whether a leader that was not in sync was eligible, or was the last known leader and its election is
    recorded as unclean. Returns False if a reassignment ends: then the leader that is removed proposes the next one.

    Raises Violation for other leaders.
    """
    if after.leader in before.elr:
        return True
    last = before.last_known_leader if before.leader == NO_BROKER else before.leader
    if after.leader == last and after.is_recovering:
        return True
    if before.leader == NO_BROKER or before.leader in after.replicas:
        raise Violation(3, f"broker {after.leader} is elected for {where} from {_sets(before)}, last led by {last}")
    return False


def _check_unclean(
    runs_before: Mapping[BrokerId, LiveBroker],
    image: MetadataImage,
    where: TopicPartition,
    before: PartitionImage,
    after: PartitionImage,
) -> None:
    """Raises Violation if an in-sync or eligible replica was live and could have been elected."""
    for number in sorted({*before.isr, *before.elr} - {after.leader}):
        earlier, broker = runs_before.get(number), image.brokers.get(number)
        is_same = broker is not None and earlier is not None and broker.epoch == earlier.epoch
        if is_same and broker is not None and not broker.is_stopping:
            what = f"broker {number} is live: {_sets(before)}"
            raise Violation(3, f"broker {after.leader} is elected for {where}, and {what}")


def check_new_runs(before: MetadataImage, after: MetadataImage, has_records: Callable[[TopicPartition], bool]) -> None:
    """Checks that a broker's new run has no place that an earlier run had (unclean exclusion). Raises Violation.

    `has_records` returns whether a partition has committed records. Before, it does not matter which run has a place:
    the topic may be created while the broker starts.
    """
    if before.live is after.live:
        return
    for number, live in after.live.items():
        earlier = before.live.get(number)
        if earlier is not None and earlier.epoch == live.epoch:
            continue
        for topic in after.topics.values():
            for partition in topic.partitions:
                where = TopicPartition(topic.name, partition.index)
                has_place = len(partition.replicas) > 1 and number in (partition.leader, *partition.isr)
                if has_place and has_records(where):
                    raise Violation(6, f"broker {number} has started again, and has its place in {where}")


def _sets(partition: PartitionImage) -> str:
    return f"replicas {list(partition.replicas)}, in sync {list(partition.isr)}, eligible {list(partition.elr)}"
