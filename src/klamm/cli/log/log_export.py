"""`klamm log export-kafka`: hands over klamm's data directory to Apache Kafka."""

from __future__ import annotations

import argparse
import base64
import os
import time
from collections.abc import Sequence
from pathlib import Path

from klamm.config.own_keys import OWN_BROKER_KEYS, OWN_GROUP_KEYS
from klamm.config.table import broker_keys, client_metrics_keys, group_keys, topic_keys
from klamm.errors import KlammError
from klamm.exchange.data_directory_owner import EXPORTED_SUFFIX
from klamm.exchange.kafka_export import FEATURES, export_metadata
from klamm.exchange.metadata_log import write_bootstrap, write_first_snapshot
from klamm.metadata.image import MetadataImage, ResourceType
from klamm.metadata.offline import read_image
from klamm.protocol.metadata_records import MetadataRecord
from klamm.protocol.schema.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from klamm.protocol.types import BrokerId, Millis, TopicPartition
from klamm.storage.atomic_file import sync_directory
from klamm.storage.checkpoints import CLEAN_SHUTDOWN_FILE, read_topic_id
from klamm.storage.directory.file_lock import FileLock
from klamm.storage.directory.meta_properties import MetaProperties
from klamm.storage.directory.metadata_files import METADATA_FILE, METADATA_FOLDER
from klamm.storage.directory.worker_directories import WORKERS_FOLDER

__all__ = ["ExportRefused", "export"]

_CONTROLLER_LISTENER = "CONTROLLER"


class ExportRefused(KlammError):
    """The directory can't be handed over in its current state; nothing was changed."""


def export(arguments: argparse.Namespace) -> int:
    """Writes Kafka's metadata, moves klamm's aside and prints how to start Kafka. With --dry-run, only prints a report.

    Raises `ExportRefused`, DataDirectoryInUse, InconsistentDataDirectory, MetadataStoreError, OSError.
    """
    directory: Path = arguments.directory
    host, port = arguments.controller
    _check_folder(directory)
    lock = FileLock(directory)
    try:
        properties = _check_state(directory)
        image = read_image(directory / METADATA_FILE)
        _check_partitions(directory, image)
        directory_id = base64.urlsafe_b64decode(f"{properties.directory_id}==")
        exported = export_metadata(
            image, node_id=BrokerId(properties.node_id), directory_id=directory_id, known_keys=_kafka_keys()
        )
        voter = Voter(
            voter_id=properties.node_id,
            voter_directory_id=directory_id,
            endpoints=[Endpoint(name=_CONTROLLER_LISTENER, host=host, port=port)],
            k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
        if not arguments.dry_run:
            _hand_over(directory, exported.records, voter)
    finally:
        lock.release()
    _report(directory, properties, image, exported.left_behind, f"{host}:{port}", is_done=not arguments.dry_run)
    return 0


def _hand_over(directory: Path, records: Sequence[MetadataRecord], voter: Voter) -> None:
    now_ms = Millis(time.time_ns() // 1_000_000)
    write_bootstrap(directory, records, now_ms=now_ms)
    write_first_snapshot(directory, VotersRecord(voters=[voter]), now_ms=now_ms)
    # After the rename, the directory belongs to Kafka, and klamm refuses it.
    metadata = directory / METADATA_FILE
    metadata.rename(metadata.with_name(METADATA_FILE + EXPORTED_SUFFIX))
    sync_directory(directory)


def _check_folder(directory: Path) -> None:
    if (directory / WORKERS_FOLDER).exists():
        raise ExportRefused(
            f"some partitions are in {directory / WORKERS_FOLDER}: start a single broker (klamm serve --data-dir "
            f"{directory}), which takes them over, stop it, and try again"
        )
    if not (directory / METADATA_FILE).exists():
        raise ExportRefused(f"{directory} is no data directory of klamm: there is no {METADATA_FILE} in it")


def _check_state(directory: Path) -> MetaProperties:
    if not (directory / CLEAN_SHUTDOWN_FILE).exists():
        raise ExportRefused(
            f"the last stop of {directory} was not a clean one: start a broker on it (klamm serve --data-dir "
            f"{directory}), stop it with SIGTERM, and try again"
        )
    if (directory / METADATA_FOLDER).exists():
        raise ExportRefused(f"there is a {METADATA_FOLDER} in {directory} already: remove it, if it is of no use")
    properties = MetaProperties.read(directory)
    if properties is None or properties.directory_id is None:
        raise ExportRefused(f"{directory} has no meta.properties with a directory.id: no broker has run on it")
    return properties


def _check_partitions(directory: Path, image: MetadataImage) -> None:
    missing = [
        str(TopicPartition(topic.name, partition.index))
        for topic in image.topics.values()
        for partition in topic.partitions
        if read_topic_id(directory / f"{topic.name}-{partition.index}") != topic.topic_id
    ]
    if missing:
        raise ExportRefused(f"the folders of these partitions are not in {directory}: {', '.join(sorted(missing))}")


def _kafka_keys() -> dict[int, frozenset[str]]:
    return {
        ResourceType.TOPIC: frozenset(topic_keys()),
        ResourceType.BROKER: frozenset(broker_keys()) - frozenset(OWN_BROKER_KEYS),
        ResourceType.GROUP: frozenset(group_keys()) - frozenset(OWN_GROUP_KEYS),
        ResourceType.CLIENT_METRICS: frozenset(client_metrics_keys()),
    }


def _report(
    directory: Path,
    properties: MetaProperties,
    image: MetadataImage,
    left_behind: list[str],
    controller: str,
    *,
    is_done: bool,
) -> None:
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    is_what = "is Apache Kafka's now" if is_done else "can be handed over"
    print(f"{directory} {is_what}: {len(image.topics)} topics, {partitions} partitions")
    for line in left_behind:
        print(f"left behind: {line}")
    if not is_done:
        print("nothing was changed")
        return
    print(f"klamm's metadata is kept as {METADATA_FILE}{EXPORTED_SUFFIX}")
    features = ", ".join(f"{name} {level}" for name, level in FEATURES.items())
    print(f"finalized features: {features}; kafka-features.sh upgrade raises them")
    print("start Apache Kafka 4.x with these lines, and listeners of your choice, in server.properties:")
    print("process.roles=broker,controller")
    print(f"node.id={properties.node_id}")
    print(f"log.dirs={os.path.abspath(directory)}")
    print(f"controller.quorum.bootstrap.servers={controller}")
    print(f"controller.listener.names={_CONTROLLER_LISTENER}")
    print(f"listeners=PLAINTEXT://:9092,{_CONTROLLER_LISTENER}://{controller}")
