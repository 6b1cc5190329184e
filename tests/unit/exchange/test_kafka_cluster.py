"""Tests how the records of a Kafka cluster's metadata log are folded into the cluster's state."""

from __future__ import annotations

import pytest

from klamm.exchange.kafka_cluster import KafkaCluster, KafkaPartition, fold
from klamm.metadata.image import ResourceType
from klamm.protocol.message import Message
from klamm.protocol.metadata_records import MetadataRecord
from klamm.protocol.schema.abort_transaction_record import AbortTransactionRecord
from klamm.protocol.schema.access_control_entry_record import AccessControlEntryRecord
from klamm.protocol.schema.begin_transaction_record import BeginTransactionRecord
from klamm.protocol.schema.client_quota_record import ClientQuotaRecord, EntityData
from klamm.protocol.schema.config_record import ConfigRecord
from klamm.protocol.schema.delegation_token_record import DelegationTokenRecord
from klamm.protocol.schema.end_transaction_record import EndTransactionRecord
from klamm.protocol.schema.feature_level_record import FeatureLevelRecord
from klamm.protocol.schema.no_op_record import NoOpRecord
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

ID = b"a" * 16
TOPIC = TopicRecord(name="orders", topic_id=ID)
PARTITION = PartitionRecord(
    partition_id=0, topic_id=ID, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=4, partition_epoch=0
)


def _fold(*messages: Message) -> KafkaCluster:
    return fold(MetadataRecord(message, 0) for message in messages)


def _config(name: str, value: str | None, topic: str = "orders") -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic, name=name, value=value)


def test_topics_with_their_partitions_and_settings() -> None:
    """A topic has its partitions and the last value of each setting; a setting that was unset is gone."""
    cluster = _fold(
        TOPIC, PARTITION, _config("retention.ms", "1"), _config("segment.ms", "2"), _config("retention.ms", "3"),
        _config("segment.ms", None), NoOpRecord(), ProducerIdsRecord(next_producer_id=3000),
    )  # fmt: skip
    topic = cluster.topics[TopicId(ID)]
    assert topic.name == "orders"
    assert topic.partitions[0] == (4, (1, 2), (1, 2), ())
    assert cluster.configs == {(ResourceType.TOPIC, "orders"): {"retention.ms": "3"}}
    assert cluster.next_producer_id == 3000


def test_changes_of_partitions() -> None:
    """A partition change affects only the fields it names, and each change of leader raises the leader epoch.

    The epoch also rises if the partition has no leader any more.
    """
    cluster = _fold(
        TOPIC,
        PARTITION,
        PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1]),
        PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[], leader=-1, eligible_leader_replicas=[1]),
    )
    partition = cluster.topics[TopicId(ID)].partitions[0]
    assert partition.holders == {1}, "who left the in-sync replicas in order has every committed record (KIP-966)"
    assert partition == KafkaPartition(LeaderEpoch(5), (1, 2), (), (1,))


def test_a_deleted_topic_takes_its_settings_with_it() -> None:
    """A deleted topic's settings are removed, so that a later topic with its name has none of them."""
    cluster = _fold(TOPIC, PARTITION, _config("retention.ms", "1"), RemoveTopicRecord(topic_id=ID))
    assert not cluster.topics
    assert not cluster.configs


def test_a_metadata_transaction_counts_when_it_ends() -> None:
    """Records of a metadata transaction count only if it ended; an aborted or open transaction does not count
    (KIP-866)."""
    begin, end = BeginTransactionRecord(), EndTransactionRecord()
    assert [topic.name for topic in _fold(begin, TOPIC, PARTITION, end).topics.values()] == ["orders"]
    assert not _fold(begin, TOPIC, AbortTransactionRecord()).topics
    assert not _fold(begin, TOPIC).topics
    assert _fold(begin, TOPIC, AbortTransactionRecord(), TOPIC).topics


def test_features_tell_a_cluster_that_has_begun() -> None:
    """A cluster is formatted if it has a feature; level 0 means that the feature is absent."""
    level = FeatureLevelRecord(name="metadata.version", feature_level=25)
    assert _fold(level).is_formatted
    assert not _fold(level, FeatureLevelRecord(name="metadata.version", feature_level=0)).is_formatted
    assert not _fold().is_formatted


def test_what_klamm_has_not_is_counted() -> None:
    """Access rules, SCRAM credentials, quotas and tokens are counted, unless they were removed again."""
    entity = [EntityData(entity_type="user", entity_name="ann")]
    there = _fold(
        AccessControlEntryRecord(id=b"1" * 16),
        UserScramCredentialRecord(name="ann", mechanism=1),
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.0),
        DelegationTokenRecord(token_id="t"),
    )
    gone = _fold(
        AccessControlEntryRecord(id=b"1" * 16),
        RemoveAccessControlEntryRecord(id=b"1" * 16),
        UserScramCredentialRecord(name="ann", mechanism=1),
        RemoveUserScramCredentialRecord(name="ann", mechanism=1),
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.0),
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True),
        DelegationTokenRecord(token_id="t"),
        RemoveDelegationTokenRecord(token_id="t"),
    )
    for cluster, count in ((there, 1), (gone, 0)):
        things = (cluster.access_rules, cluster.scram_credentials, cluster.quotas, cluster.tokens)
        assert [len(each) for each in things] == [count] * 4


@pytest.mark.parametrize(
    "records",
    [
        [PARTITION],
        [RemoveTopicRecord(topic_id=ID)],
        [TOPIC, PartitionChangeRecord(partition_id=3, topic_id=ID, leader=1)],
    ],
)
def test_records_about_what_is_not_there_are_refused(records: list[Message]) -> None:
    """A record about an unknown topic or partition is refused, because the log is then incomplete."""
    with pytest.raises(ValueError, match="not there"):
        _fold(*records)
