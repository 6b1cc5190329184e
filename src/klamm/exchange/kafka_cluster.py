"""The state of an Apache Kafka cluster, built by applying the records of its metadata log in order.

Records between a BeginTransactionRecord and its end are applied at the end. They are ignored if the transaction was
aborted or never ended (KIP-866).

Source: `image/TopicsDelta.java`, `metadata/PartitionRegistration.merge`, `controller/OffsetControlManager.java` of
Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from klamm.metadata.image import ResourceType
from klamm.protocol.message import Message
from klamm.protocol.metadata_records import MetadataRecord
from klamm.protocol.schema.abort_transaction_record import AbortTransactionRecord
from klamm.protocol.schema.access_control_entry_record import AccessControlEntryRecord
from klamm.protocol.schema.begin_transaction_record import BeginTransactionRecord
from klamm.protocol.schema.client_quota_record import ClientQuotaRecord
from klamm.protocol.schema.config_record import ConfigRecord
from klamm.protocol.schema.delegation_token_record import DelegationTokenRecord
from klamm.protocol.schema.end_transaction_record import EndTransactionRecord
from klamm.protocol.schema.feature_level_record import FeatureLevelRecord
from klamm.protocol.schema.partition_change_record import PartitionChangeRecord
from klamm.protocol.schema.partition_record import PartitionRecord
from klamm.protocol.schema.producer_ids_record import ProducerIdsRecord
from klamm.protocol.schema.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from klamm.protocol.schema.remove_delegation_token_record import RemoveDelegationTokenRecord
from klamm.protocol.schema.remove_topic_record import RemoveTopicRecord
from klamm.protocol.schema.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from klamm.protocol.schema.topic_record import TopicRecord
from klamm.protocol.schema.user_scram_credential_record import UserScramCredentialRecord
from klamm.protocol.types import LeaderEpoch, TopicId

__all__ = ["KafkaCluster", "KafkaPartition", "KafkaTopic", "fold"]

_NO_LEADER_CHANGE: Final = -2


class KafkaPartition(NamedTuple):
    """A partition: `holders` are the brokers that have every committed record (in sync, or eligible to lead)."""

    leader_epoch: LeaderEpoch
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible: tuple[int, ...]

    @property
    def holders(self) -> frozenset[int]:
        """In-sync replicas and eligible leader replicas (KIP-966); after a clean shutdown of all brokers, only the
        latter."""
        return frozenset(self.isr) | frozenset(self.eligible)


@dataclass(slots=True)
class KafkaTopic:
    """A topic and its partitions by index."""

    name: str
    topic_id: TopicId
    partitions: dict[int, KafkaPartition] = field(default_factory=dict)


@dataclass(slots=True)
class KafkaCluster:
    """The cluster's metadata; `configs` by resource type and name, including topics."""

    topics: dict[TopicId, KafkaTopic] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    features: dict[str, int] = field(default_factory=dict)
    access_rules: set[bytes] = field(default_factory=set)
    scram_credentials: set[tuple[str, int]] = field(default_factory=set)
    quotas: set[tuple[tuple[tuple[str, str | None], ...], str]] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)

    @property
    def is_formatted(self) -> bool:
        """Whether the log has a metadata version; before that, the bootstrap records apply."""
        return "metadata.version" in self.features


def fold(records: Iterable[MetadataRecord]) -> KafkaCluster:
    """Builds the cluster from the records. Raises ValueError for a record about a topic that does not exist."""
    cluster = KafkaCluster()
    pending: list[Message] | None = None
    for message, _ in records:
        if isinstance(message, BeginTransactionRecord):
            pending = []
        elif isinstance(message, EndTransactionRecord):
            for each in pending or ():
                _apply(cluster, each)
            pending = None
        elif isinstance(message, AbortTransactionRecord):
            pending = None
        elif pending is not None:
            pending.append(message)
        else:
            _apply(cluster, message)
    return cluster


def _apply(cluster: KafkaCluster, message: Message) -> None:
    apply = _APPLY.get(type(message))
    if apply is not None:
        apply(cluster, message)


def _topic(cluster: KafkaCluster, topic_id: bytes) -> KafkaTopic:
    topic = cluster.topics.get(TopicId(topic_id))
    if topic is None:
        raise ValueError(f"a record of the topic with the id {topic_id.hex()}, which is not there")
    return topic


def _add_topic(cluster: KafkaCluster, record: TopicRecord) -> None:
    topic_id = TopicId(record.topic_id)
    cluster.topics[topic_id] = KafkaTopic(record.name, topic_id)


def _remove_topic(cluster: KafkaCluster, record: RemoveTopicRecord) -> None:
    topic = _topic(cluster, record.topic_id)
    del cluster.topics[topic.topic_id]
    cluster.configs.pop((ResourceType.TOPIC, topic.name), None)


def _add_partition(cluster: KafkaCluster, record: PartitionRecord) -> None:
    _topic(cluster, record.topic_id).partitions[record.partition_id] = KafkaPartition(
        LeaderEpoch(record.leader_epoch),
        tuple(record.replicas),
        tuple(record.isr),
        tuple(record.eligible_leader_replicas or ()),
    )


def _change_partition(cluster: KafkaCluster, record: PartitionChangeRecord) -> None:
    partitions = _topic(cluster, record.topic_id).partitions
    before = partitions.get(record.partition_id)
    if before is None:
        raise ValueError(f"a change of partition {record.partition_id}, which is not there")
    eligible = record.eligible_leader_replicas
    partitions[record.partition_id] = KafkaPartition(
        LeaderEpoch(before.leader_epoch + (record.leader != _NO_LEADER_CHANGE)),
        before.replicas if record.replicas is None else tuple(record.replicas),
        before.isr if record.isr is None else tuple(record.isr),
        before.eligible if eligible is None else tuple(eligible),
    )


def _set_config(cluster: KafkaCluster, record: ConfigRecord) -> None:
    resource = (record.resource_type, record.resource_name)
    configs = cluster.configs.setdefault(resource, {})
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    if not configs:
        del cluster.configs[resource]


def _set_producer_ids(cluster: KafkaCluster, record: ProducerIdsRecord) -> None:
    cluster.next_producer_id = record.next_producer_id


def _set_feature(cluster: KafkaCluster, record: FeatureLevelRecord) -> None:
    if record.feature_level:
        cluster.features[record.name] = record.feature_level
    else:
        cluster.features.pop(record.name, None)


def _set_quota(cluster: KafkaCluster, record: ClientQuotaRecord) -> None:
    entity = tuple((each.entity_type, each.entity_name) for each in record.entity)
    if record.remove:
        cluster.quotas.discard((entity, record.key))
    else:
        cluster.quotas.add((entity, record.key))


_APPLY: Final[dict[type[Message], Callable[[KafkaCluster, Any], None]]] = {
    TopicRecord: _add_topic,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: _add_partition,
    PartitionChangeRecord: _change_partition,
    ConfigRecord: _set_config,
    ProducerIdsRecord: _set_producer_ids,
    FeatureLevelRecord: _set_feature,
    ClientQuotaRecord: _set_quota,
    AccessControlEntryRecord: lambda cluster, record: cluster.access_rules.add(record.id),
    RemoveAccessControlEntryRecord: lambda cluster, record: cluster.access_rules.discard(record.id),
    UserScramCredentialRecord: lambda cluster, record: cluster.scram_credentials.add((record.name, record.mechanism)),
    RemoveUserScramCredentialRecord: lambda cluster, record: cluster.scram_credentials.discard(
        (record.name, record.mechanism)
    ),
    DelegationTokenRecord: lambda cluster, record: cluster.tokens.add(record.token_id),
    RemoveDelegationTokenRecord: lambda cluster, record: cluster.tokens.discard(record.token_id),
}
"""Other records (registrations of brokers and controllers, fencing, ELR notes) are irrelevant for a single node."""
