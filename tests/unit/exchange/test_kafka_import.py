"""Tests the import of a Kafka cluster's metadata into klamm, and the export of klamm's metadata to Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.exchange.kafka_cluster import KafkaCluster, KafkaPartition, KafkaTopic, fold
from klamm.exchange.kafka_export import FEATURES, export_metadata
from klamm.exchange.kafka_import import Import, ImportRefused, plan_import
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, ResourceType
from klamm.metadata.metadata_store import Change, MetadataStoreError
from klamm.metadata.offline import create_store, read_commit, read_image
from klamm.protocol.metadata_records import decode_metadata_record, encode_metadata_record
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicPartition

NODE = BrokerId(3)
DIRECTORY_ID = b"d" * 16
ORDERS, OFFSETS = TopicId(b"o" * 16), TopicId(b"c" * 16)
FOLDERS = {
    TopicPartition("orders", PartitionIndex(0)): ORDERS,
    TopicPartition("orders", PartitionIndex(1)): ORDERS,
    TopicPartition("__consumer_offsets", PartitionIndex(0)): OFFSETS,
    TopicPartition("forgotten", PartitionIndex(0)): TopicId(b"f" * 16),
}


def _partition(epoch: int = 0, replicas: tuple[int, ...] = (3,), isr: tuple[int, ...] = (3,)) -> KafkaPartition:
    return KafkaPartition(LeaderEpoch(epoch), replicas, isr, ())


def _cluster() -> KafkaCluster:
    return KafkaCluster(
        topics={
            ORDERS: KafkaTopic("orders", ORDERS, {0: _partition(4), 1: _partition(-1)}),
            OFFSETS: KafkaTopic("__consumer_offsets", OFFSETS, {0: _partition(2)}),
        },
        configs={
            (ResourceType.TOPIC, "orders"): {"retention.ms": "7", "bad": "1"},
            (ResourceType.BROKER, ""): {"log.retention.ms": "8"},
            (ResourceType.BROKER, "3"): {"log.segment.bytes": "9"},
            (ResourceType.BROKER, "4"): {"log.segment.bytes": "9"},
            (ResourceType.GROUP, "billing"): {"bad": "1"},
        },
        next_producer_id=5000,
        features={"metadata.version": 25},
    )


def _plan(cluster: KafkaCluster) -> Import:
    return plan_import(
        cluster,
        cluster_id="a-cluster",
        node_id=NODE,
        folders=FOLDERS,
        why_refused=lambda _, key, value: "it is bad" if key == "bad" else None,
    )


def _image(plan: Import, path: Path) -> MetadataImage:
    create_store(path / "metadata.sqlite", plan.changes)
    return read_image(path / "metadata.sqlite")


def test_names_ids_epochs_settings_and_producer_ids_are_kept(tmp_path: Path) -> None:
    """An import keeps names, ids, epochs, settings and producer ids, and makes its node the leader of each partition.

    klamm can open the metadata file.
    """
    plan = _plan(_cluster())
    image = _image(plan, tmp_path)
    assert (plan.topics, plan.partitions) == (2, 3)
    assert (image.cluster_id, image.next_producer_id, dict(image.brokers)) == ("a-cluster", 5000, {})
    orders = image.topics["orders"]
    assert orders.topic_id == ORDERS
    assert orders.configs == {"retention.ms": "7"}
    assert [(each.leader, each.leader_epoch, each.replicas, each.isr) for each in orders.partitions] == [
        (3, 4, (3,), (3,)),
        (3, 0, (3,), (3,)),
    ]
    assert image.configs == {
        (ResourceType.BROKER, ""): {"log.retention.ms": "8"},
        (ResourceType.BROKER, "3"): {"log.segment.bytes": "9"},
    }


def test_what_is_left_behind_is_said() -> None:
    """An import reports refused settings, other brokers' settings and replicas, and features that klamm does not
    have."""
    cluster = _cluster()
    cluster.topics[ORDERS].partitions[0] = _partition(replicas=(3, 5), isr=(5, 3))
    cluster.topics[TopicId(b"s" * 16)] = KafkaTopic("__share_group_state", TopicId(b"s" * 16))
    cluster.access_rules = {b"1", b"2"}
    cluster.tokens = {"t"}
    assert _plan(cluster).left_behind == [
        "bad of topic orders: it is bad",
        "1 settings of broker 4",
        "bad of group billing: it is bad",
        "the replicas on brokers 5: each partition has one from now on",
        "2 access control entries",
        "1 delegation tokens",
        "share groups: their topic __share_group_state is kept, and not read",
    ]


@pytest.mark.parametrize(
    ("partitions", "words"),
    [
        ({0: _partition(), 1: _partition(), 2: _partition()}, "orders-2 has no folder"),
        ({0: _partition(), 1: _partition(isr=(4,))}, "broker 3 is not in sync for orders-1"),
        ({0: _partition(), 2: _partition()}, "lacks partitions of orders"),
    ],
)
def test_a_directory_without_all_records_is_refused(partitions: dict[int, KafkaPartition], words: str) -> None:
    """A data directory that lacks a partition of a topic, or an in-sync replica of it, is refused."""
    cluster = _cluster()
    cluster.topics[ORDERS].partitions = partitions
    with pytest.raises(ImportRefused, match=words):
        _plan(cluster)


def test_a_folder_of_another_topic_is_refused() -> None:
    """A folder of a deleted topic is refused if a new topic has the same name and another id."""
    cluster = _cluster()
    other = TopicId(b"x" * 16)
    cluster.topics[other] = KafkaTopic("forgotten", other, {0: _partition()})
    with pytest.raises(ImportRefused, match="folder forgotten-0 is of another topic"):
        _plan(cluster)


def test_many_problems_are_not_all_told() -> None:
    """The error names a few problems and gives the number of the others."""
    cluster = _cluster()
    cluster.topics[ORDERS].partitions = {index: _partition() for index in range(40)}
    with pytest.raises(ImportRefused, match="and 28 more"):
        _plan(cluster)


def test_what_was_exported_is_what_is_imported(tmp_path: Path) -> None:
    """An export and a new import through Kafka's record bytes give the same topics and settings."""
    image = _image(_plan(_cluster()), tmp_path)
    known: dict[int, set[str]] = {
        ResourceType.TOPIC: {"retention.ms"},
        ResourceType.BROKER: {"log.retention.ms", "log.segment.bytes"},
    }
    exported = export_metadata(image, node_id=NODE, directory_id=DIRECTORY_ID, known_keys=known)
    assert not exported.left_behind
    cluster = fold(decode_metadata_record(encode_metadata_record(*record)) for record in exported.records)
    assert cluster.features == FEATURES
    assert cluster.topics[ORDERS].partitions[0] == _partition(4)
    again = plan_import(cluster, cluster_id="a-cluster", node_id=NODE, folders=FOLDERS, why_refused=lambda *_: None)
    assert not again.left_behind
    second = tmp_path / "second"
    second.mkdir()
    assert _image(again, second) == image


def test_settings_of_klamms_own_stay_with_klamm(tmp_path: Path) -> None:
    """An export leaves out klamm's own settings, because Kafka does not know them, and reports them."""
    image = _image(_plan(_cluster()), tmp_path)
    exported = export_metadata(image, node_id=NODE, directory_id=DIRECTORY_ID, known_keys={})
    assert exported.left_behind[0] == "retention.ms=7 of topic orders, a key of klamm's own"
    assert not fold(exported.records).configs


def test_a_store_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    """A store is created completely or not at all: an unfinished file is replaced, and an existing store is kept."""
    path = tmp_path / "metadata.sqlite"
    with pytest.raises(MetadataStoreError, match="no metadata store"):
        read_commit(path)
    path.with_name("metadata.sqlite.unfinished").write_bytes(b"half of it")
    create_store(path, [Change("cluster", b'{"id":"x"}')])
    assert [each.name for each in tmp_path.iterdir()] == ["metadata.sqlite"]
    with pytest.raises(FileExistsError):
        create_store(path, [])
    assert read_image(path).cluster_id == "x"
    assert EMPTY_IMAGE.cluster_id == ""


def test_entries_of_a_later_version_are_refused(tmp_path: Path) -> None:
    """A store with entries of a later version is refused, as by a broker."""
    path = tmp_path / "metadata.sqlite"
    create_store(path, [Change("novelties/1", b"{}")])
    with pytest.raises(MetadataStoreError, match="unknown kind 'novelties'"):
        read_image(path)
