"""The metadata changes at a broker's start: its registration, and new leader epochs for the partitions that it leads;
and the removal of a broker's registration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from klamm.errors import KlammError
from klamm.metadata.directory_content import DirectoryContent
from klamm.metadata.entries import (
    broker_key,
    live_key,
    put_broker,
    put_broker_ids,
    put_cluster,
    put_configs,
    put_features,
    put_live,
    put_partition,
)
from klamm.metadata.image import NO_BROKER, MetadataImage, PartitionImage, ResourceType
from klamm.metadata.metadata_store import Change, Plan
from klamm.metadata.metadata_version import FIRST_VERSION_WITH_FOLLOWERS, METADATA_VERSION
from klamm.metadata.replicas.broker_departure import without_run_of
from klamm.metadata.replicas.replica_rules import rules_of
from klamm.metadata.version_changes import raising
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, TopicPartition

__all__ = [
    "BrokerIsLive",
    "Registration",
    "latest_run",
    "plan_broker_id",
    "plan_cluster",
    "plan_registration",
    "plan_session_removal",
    "plan_stop",
    "plan_unregistration",
]

_HIGHEST_BROKER_ID: Final = 2**31 - 1


class BrokerIsLive(KlammError):
    """Another process runs as the broker, or its session with the metadata store has not ended yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A broker that starts.

    `endpoints`: host and port by listener name, the first listener first. `cluster_defaults`: the settings of a new
    cluster for all its brokers. `minimum_leader_epochs`: the lowest epoch that a partition may get, for logs with
    higher epochs than the store.
    """

    broker_id: BrokerId
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None
    incarnation: str
    cluster_id: str
    cluster_defaults: Mapping[str, str] = field(default_factory=dict)
    minimum_leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_shared: bool = False
    """Whether other brokers may use the store."""
    content: DirectoryContent = field(default_factory=DirectoryContent)


def latest_run(image: MetadataImage, broker_id: BrokerId) -> str:
    """Returns the incarnation of the broker's run that has registered last, "" if it is not known."""
    found = image.registrations.get(broker_id)
    return "" if found is None else found.latest_run


def plan_session_removal(image: MetadataImage, broker_id: BrokerId, own_incarnations: Collection[str]) -> Plan[None]:
    """Removes what an earlier run of the broker left, so that the next `live/<id>` gets a new create revision.

    Raises BrokerIsLive if the broker is live with another incarnation than these.
    """
    found = image.live.get(broker_id)
    if found is None:
        return Plan(None)
    if found.incarnation not in own_incarnations:
        raise BrokerIsLive(
            f"broker {broker_id} is already running with another data directory or on another machine (its incarnation "
            f"is {found.incarnation}): stop that broker, or give this one another node.id. If that broker was killed, "
            f"start this one again when the session of the killed one has expired"
        )
    return Plan(None, [Change(live_key(broker_id), None)])


def plan_cluster(image: MetadataImage, cluster_id: str, cluster_defaults: Mapping[str, str]) -> Plan[None]:
    """Creates the cluster with the metadata version of this program, unless it exists."""
    if image.cluster_id:
        return Plan(None)
    changes = [put_cluster(cluster_id), put_configs(ResourceType.BROKER, "", cluster_defaults)]
    if not image.metadata_version:
        changes.append(put_features(METADATA_VERSION))
    return Plan(None, changes)


def plan_registration(image: MetadataImage, wanted: Registration) -> Plan[None]:
    """Plans the broker's registration and a higher leader epoch for each partition whose only replica it is,
    and which it led last.

    The epoch tells a client that was ahead of a log which lost its tail in a crash (KIP-320). A partition with several
    replicas loses this one as leader and as in-sync replica instead (see `without_run_of`). If the data directory has
    kept all records of the latest run, `plan_upkeep` must have run before: it keeps the broker as an eligible leader
    replica where it may be one.

    The broker is live with the last change, so after all partitions are changed. A store of an earlier metadata version
    is upgraded if no other broker uses the store. Raises BrokerIsLive if another run of the broker was faster.
    """
    plan_session_removal(image, wanted.broker_id, ())
    changes: list[Change] = []
    if (
        image.cluster_id
        and image.metadata_version < METADATA_VERSION
        and (not wanted.is_shared or image.metadata_version == 0)
    ):
        changes.extend(raising(image, METADATA_VERSION))
    if not image.cluster_id:
        changes.extend(plan_cluster(image, wanted.cluster_id, wanted.cluster_defaults).changes)
    latest = latest_run(image, wanted.broker_id)
    has_kept_all = wanted.content.has_kept_all(latest)
    for topic in image.topics.values():
        rules = rules_of(image, topic)
        for partition in topic.partitions:
            if wanted.broker_id not in partition.replicas:
                continue
            where = TopicPartition(topic.name, partition.index)
            if len(partition.replicas) > 1:
                has_log = wanted.content.has_log(latest, where)
                changed = without_run_of(partition, rules, wanted.broker_id, has_kept_all=has_kept_all, has_log=has_log)
                if changed is not partition:
                    changes.append(put_partition(topic.topic_id, changed))
            elif wanted.broker_id == _latest_leader(partition):
                minimum = wanted.minimum_leader_epochs.get(where, 0)
                # If the broker may have lost records, the partition is recovering, as after an unclean election.
                has_records = has_kept_all and wanted.content.has_log(latest, where)
                led = _led_alone(partition, minimum)
                if wanted.is_shared and image.metadata_version >= FIRST_VERSION_WITH_FOLLOWERS:
                    led = replace(led, is_recovering=not has_records, partition_epoch=partition.partition_epoch + 1)
                changes.append(put_partition(topic.topic_id, led))
    changes.append(put_broker(wanted.broker_id, wanted.endpoints, wanted.rack, wanted.incarnation))
    changes.append(put_live(wanted.broker_id, wanted.incarnation))
    return Plan(None, changes, commit_key=live_key(wanted.broker_id))


def _latest_leader(partition: PartitionImage) -> BrokerId:
    return partition.last_known_leader if partition.leader == NO_BROKER else partition.leader


def _led_alone(partition: PartitionImage, minimum_epoch: int) -> PartitionImage:
    """Returns a partition with one replica under the next leader epoch of that replica.

    The partition has no leader if a reassignment took its other replicas away while the broker was away. No election
    would make the broker its leader: elections are for partitions with several replicas.
    """
    led = replace(partition, leader_epoch=LeaderEpoch(max(partition.leader_epoch + 1, minimum_epoch)))
    if partition.leader != NO_BROKER:
        return led
    return replace(
        led,
        leader=partition.replicas[0],
        isr=partition.replicas,
        elr=(),
        last_known_leader=NO_BROKER,
    )


def plan_stop(image: MetadataImage, broker_id: BrokerId, incarnation: str) -> Plan[None]:
    """Announces that the broker's run is about to stop. Does nothing if it is not live any more, or has announced it.

    A store of metadata version 1 has no such field, and no followers that could take over.
    """
    found = image.live.get(broker_id)
    if found is None or found.incarnation != incarnation or found.is_stopping:
        return Plan(None)
    if image.metadata_version < FIRST_VERSION_WITH_FOLLOWERS:
        return Plan(None)
    return Plan(None, [put_live(broker_id, incarnation, is_stopping=True)])


def plan_broker_id(image: MetadataImage, lowest: BrokerId) -> Plan[BrokerId]:
    """Allocates the lowest id, from `lowest` on, that no broker has or had."""
    broker_id = BrokerId(max(lowest, image.next_broker_id))
    while broker_id in image.registrations or broker_id in image.live:
        broker_id = BrokerId(broker_id + 1)
    return Plan(broker_id, [put_broker_ids(broker_id + 1)], [broker_key(broker_id), live_key(broker_id)])


def plan_unregistration(image: MetadataImage, broker_id: BrokerId, *, is_shared: bool) -> Plan[None]:
    """Removes the registration of a broker. A live broker stops when it sees this, and keeps its session until then.

    Raises BROKER_ID_NOT_REGISTERED, and INVALID_REQUEST for the only broker that may use a store.
    """
    if broker_id not in image.registrations:
        reason = f"Broker ID {broker_id} is not currently registered"
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, reason)
    if broker_id in image.brokers and not is_shared:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is the only broker, and can't be unregistered."
        )
    changes = [Change(broker_key(broker_id), None)]
    if image.next_broker_id <= broker_id < _HIGHEST_BROKER_ID:  # its id was chosen, not allocated
        changes.append(put_broker_ids(broker_id + 1))
    return Plan(None, changes, [live_key(broker_id)])
