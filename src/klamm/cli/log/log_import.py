"""`klamm log import-kafka`: takes over a data directory that Apache Kafka wrote."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from klamm.config.errors import ConfigurationError, InvalidValue
from klamm.config.key_support import KeySupport
from klamm.config.table import ConfigKey, broker_keys, client_metrics_keys, group_keys, topic_keys
from klamm.config.topic_config import TopicConfig
from klamm.config.validation import validate_topic_configs
from klamm.exchange.data_directory_owner import IMPORTED_SUFFIX, has_both_forms
from klamm.exchange.kafka_cluster import KafkaCluster, fold
from klamm.exchange.kafka_folders import KafkaFolders, find_folders, note_gaps
from klamm.exchange.kafka_import import Import, ImportRefused, plan_import
from klamm.exchange.metadata_log import read_bootstrap, read_metadata_log
from klamm.metadata.image import ResourceType
from klamm.metadata.offline import create_store, read_image
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import BrokerId
from klamm.storage.atomic_file import sync_directory
from klamm.storage.checkpoints import CLEAN_SHUTDOWN_FILE
from klamm.storage.directory.file_lock import FileLock
from klamm.storage.directory.meta_properties import MetaProperties
from klamm.storage.directory.metadata_files import BOOTSTRAP_FILE, METADATA_FILE, METADATA_FOLDER
from klamm.storage.segment.damage import Damage

__all__ = ["import_kafka"]


def import_kafka(arguments: argparse.Namespace) -> int:
    """Creates klamm's metadata from Kafka's, moves Kafka's aside, and prints what was not imported.

    Begins again if an earlier import was killed before it had moved all of Kafka's metadata aside. Raises
    `ImportRefused`, UnusableMetadataLog, DataDirectoryInUse, InconsistentDataDirectory, MetadataStoreError, OSError.
    """
    directory: Path = arguments.directory
    if (directory / METADATA_FILE).exists() and not has_both_forms(directory):
        raise ImportRefused(f"{directory} has klamm's metadata already ({METADATA_FILE})")
    if not (directory / METADATA_FOLDER).is_dir():
        raise ImportRefused(f"{directory} is no data directory of Apache Kafka: there is no {METADATA_FOLDER} in it")
    lock = FileLock(directory)
    try:
        _check_not_used(directory)
        properties = _check_state(directory)
        folders = find_folders(directory)
        if folders.old_format:
            raise ImportRefused(
                f"{folders.old_format[0]} holds records in a format from before Kafka 0.11, which klamm does not "
                f"read ({len(folders.old_format)} such segments)"
            )
        cluster = _read_cluster(directory)
        plan = plan_import(
            cluster,
            cluster_id=properties.cluster_id,
            node_id=BrokerId(properties.node_id),
            folders=folders.partitions,
            why_refused=_why_refused,
        )
        if not arguments.dry_run:
            for partition in folders.partitions:
                _note_gaps(directory / str(partition))
            (directory / METADATA_FILE).unlink(missing_ok=True)  # of an import that was killed
            create_store(directory / METADATA_FILE, plan.changes)
            for name in (METADATA_FOLDER, BOOTSTRAP_FILE):
                _put_aside(directory / name)
            sync_directory(directory)
    finally:
        lock.release()
    _report(directory, properties, plan, folders, cluster, is_done=not arguments.dry_run)
    return 0


def _note_gaps(folder: Path) -> None:
    try:
        note_gaps(folder)
    except Damage as damage:
        raise ImportRefused(str(damage)) from damage


def _check_not_used(directory: Path) -> None:
    """Raises ImportRefused if a broker has used klamm's metadata. An import that was killed leaves them unused."""
    if has_both_forms(directory) and read_image(directory / METADATA_FILE).registrations:
        raise ImportRefused(
            f"{directory} has klamm's metadata already ({METADATA_FILE}), and Kafka's too ({METADATA_FOLDER}). If "
            f"klamm ran last, move {METADATA_FOLDER} and {BOOTSTRAP_FILE} to another place. If Apache Kafka ran last, "
            f"move {METADATA_FILE} to another place, and repeat the command"
        )


def _check_state(directory: Path) -> MetaProperties:
    if not (directory / CLEAN_SHUTDOWN_FILE).exists():
        raise ImportRefused(
            f"Apache Kafka's last stop on {directory} was not a clean one ({CLEAN_SHUTDOWN_FILE} is missing): start "
            f"it once more and stop it with SIGTERM"
        )
    properties = MetaProperties.read(directory)
    if properties is None:
        raise ImportRefused(f"{directory} has no meta.properties: whose it is can't be told")
    return properties


def _read_cluster(directory: Path) -> KafkaCluster:
    try:
        cluster = fold(read_metadata_log(directory / METADATA_FOLDER))
        # If klamm exported the directory and Kafka never opened it, the cluster is in the bootstrap records.
        return cluster if cluster.is_formatted else fold(read_bootstrap(directory))
    except ValueError as error:
        raise ImportRefused(f"the metadata log in {directory / METADATA_FOLDER} makes no sense: {error}") from error


def _put_aside(path: Path) -> None:
    if not path.exists():
        return
    target = path.with_name(path.name + IMPORTED_SUFFIX)
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}{IMPORTED_SUFFIX}.{number}")
    path.rename(target)


def _why_refused(resource_type: int, key: str, value: str) -> str | None:
    """Returns why klamm refuses a setting; None if klamm accepts it."""
    table = _TABLES.get(resource_type)
    known = table().get(key) if table is not None else None
    if known is None:
        return "klamm does not know it"
    if known.support == KeySupport.REFUSED and value != known.default:
        return known.reason
    try:
        if resource_type == ResourceType.TOPIC:
            validate_topic_configs({key: value}, TopicConfig())
        else:
            known.parse(value)
    except (KafkaError, InvalidValue, ConfigurationError) as error:
        return str(error)
    return None


_TABLES: Final[Mapping[int, Callable[[], Mapping[str, ConfigKey]]]] = {
    ResourceType.TOPIC: topic_keys,
    ResourceType.BROKER: broker_keys,
    ResourceType.GROUP: group_keys,
    ResourceType.CLIENT_METRICS: client_metrics_keys,
}


def _report(
    directory: Path,
    properties: MetaProperties,
    plan: Import,
    folders: KafkaFolders,
    cluster: KafkaCluster,
    *,
    is_done: bool,
) -> None:
    is_what = "is klamm's now" if is_done else "can be taken over"
    print(f"{directory} {is_what}: cluster {properties.cluster_id}, {plan.topics} topics, {plan.partitions} partitions")
    for line in (*plan.left_behind, *folders.unused):
        print(f"left behind: {line}")
    for (resource_type, name), configs in sorted(cluster.configs.items()):
        wanted = configs.get("min.insync.replicas", "1")
        if resource_type in (ResourceType.TOPIC, ResourceType.BROKER) and wanted != "1":
            what = f"topic {name}" if resource_type == ResourceType.TOPIC else "all topics"
            print(f"note: min.insync.replicas={wanted} for {what} can't be met by one broker: acks=all is refused")
    if is_done:
        print(
            f"Kafka's metadata is kept as {METADATA_FOLDER}{IMPORTED_SUFFIX}; Kafka must not run on {directory} again"
        )
        print("start klamm on it:")
        print(f"klamm serve --data-dir {directory} -X node.id={properties.node_id}")
    else:
        print("nothing was changed")
