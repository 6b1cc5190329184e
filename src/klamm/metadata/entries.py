"""Encodes metadata as keys and values, and decodes it: every image is a fold of commits.

    features                         {"metadata.version": number}
    cluster                          {"id": text}
    producer-ids                     {"next": first id of the next block}
    broker-ids                       {"next": lowest id that was not allocated yet}
    brokers/<id>                     {"host": text, "port": number, "rack": text or null,
                                      "endpoints": {listener name: [host, port]}, "metadataVersion": number,
                                      "incarnation": text of the latest run}
    live/<id>                        {"incarnation": text, "stopping": true}, leased; the second only while it stops
    writers/<incarnation>            number of the writer's latest transaction, leased
    unfinished                       only while the store is filled from another one (see `store_fill`)
    topics/<collision key>           {"name": text, "id": 22 characters, "partitions": count, "configs": {key: value}}
    partitions/<topic id>/<index>    {"leader": id, "epoch": number, "replicas": [id], "isr": [id],
                                      "partitionEpoch": number, "elr": [id], "lastKnownLeader": id, "adding": [id],
                                      "removing": [id], "recovering": true}: the later six only if not their default
    configs/<resource type>/<name>   {key: value}

A broker exists while `brokers/<id>` does, and is live while `live/<id>` does. A live broker that does not exist any
more was unregistered, and is about to stop. A partition exists if its topic does and counts it: so the topic's entry is
the commit point of a creation or a growth that takes several transactions.

A topic's key is its collision key (see `topic_name`), so that two brokers cannot create `a.b` and `a_b` at the same
moment. Values are JSON, so that a person can read them with sqlite3 or etcdctl, and a later version can add fields.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from klamm.metadata.image import (
    NO_BROKER,
    NO_EPOCH,
    BrokerImage,
    Endpoint,
    LiveBroker,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from klamm.metadata.metadata_store import Change, Versioned
from klamm.metadata.metadata_version import METADATA_VERSION, check_kind, check_version
from klamm.metadata.topic_fold import TopicFold
from klamm.metadata.topic_name import collision_key
from klamm.protocol.types import BrokerId, PartitionIndex, TopicId

__all__ = [
    "CLUSTER_KEY",
    "apply",
    "broker_key",
    "config_key",
    "live_key",
    "partition_key",
    "put_broker",
    "put_broker_ids",
    "put_cluster",
    "put_configs",
    "put_features",
    "put_live",
    "put_partition",
    "put_producer_ids",
    "put_topic",
    "put_writer",
    "rewrite_configs",
    "topic_key",
    "uuid_text",
    "writer_key",
]

CLUSTER_KEY: Final = "cluster"
_PRODUCER_IDS_KEY: Final = "producer-ids"
_BROKER_IDS_KEY: Final = "broker-ids"
_FEATURES_KEY: Final = "features"
_METADATA_VERSION: Final = "metadata.version"

_NOT_LIVE: Final = LiveBroker("", NO_EPOCH)

T = TypeVar("T")

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


@lru_cache(maxsize=256)
def uuid_text(uuid: bytes) -> str:
    """Returns Kafka's text form of 16 bytes: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def broker_key(broker_id: BrokerId) -> str:
    return f"brokers/{broker_id}"


def live_key(broker_id: BrokerId) -> str:
    return f"live/{broker_id}"


def writer_key(incarnation: str) -> str:
    return f"writers/{incarnation}"


def topic_key(name: str) -> str:
    return f"topics/{collision_key(name)}"


def partition_key(topic_id: TopicId, index: PartitionIndex) -> str:
    return f"partitions/{uuid_text(topic_id)}/{index}"


def config_key(resource_type: int, name: str) -> str:
    """Returns the key for the overrides of a resource other than a topic, whose overrides are in its own entry."""
    assert resource_type != ResourceType.TOPIC
    return f"configs/{int(resource_type)}/{name}"


def put_cluster(cluster_id: str) -> Change:
    return _put(CLUSTER_KEY, {"id": cluster_id})


def put_producer_ids(next_producer_id: int) -> Change:
    return _put(_PRODUCER_IDS_KEY, {"next": next_producer_id})


def put_broker_ids(next_broker_id: int) -> Change:
    return _put(_BROKER_IDS_KEY, {"next": next_broker_id})


def put_features(metadata_version: int) -> Change:
    return _put(_FEATURES_KEY, {_METADATA_VERSION: metadata_version})


def put_broker(
    broker_id: BrokerId, endpoints: Mapping[str, tuple[str, int]], rack: str | None, incarnation: str = ""
) -> Change:
    """Returns the change that registers the broker with its addresses by listener name, the first listener first, its
    run, and the metadata version of this program."""
    host, port = next(iter(endpoints.values()))
    listeners = {name: list(address) for name, address in endpoints.items()}
    body = {
        "host": host,
        "port": port,
        "rack": rack,
        "endpoints": listeners,
        "metadataVersion": METADATA_VERSION,
        "incarnation": incarnation,
    }
    return _put(broker_key(broker_id), body)


def put_live(broker_id: BrokerId, incarnation: str, *, is_stopping: bool = False) -> Change:
    """Returns the change that makes the broker live while its session with the store lasts."""
    body: dict[str, Any] = {"incarnation": incarnation}
    if is_stopping:
        body["stopping"] = True
    return _put(live_key(broker_id), body)._replace(is_leased=True)


def put_writer(incarnation: str, number: int) -> Change:
    """Returns the change that marks a transaction as the writer's, so that the writer can tell whether it happened."""
    return Change(writer_key(incarnation), b"%d" % number, is_leased=True)


def put_topic(topic: TopicImage, partitions: int | None = None) -> Change:
    """Returns the change that writes the topic's own entry. `partitions`: their number, if it is not the image's."""
    body = {
        "name": topic.name,
        "id": uuid_text(topic.topic_id),
        "partitions": len(topic.partitions) if partitions is None else partitions,
        "configs": dict(topic.configs),
    }
    return _put(topic_key(topic.name), body)


def put_partition(topic_id: TopicId, partition: PartitionImage) -> Change:
    return Change(partition_key(topic_id, partition.index), _partition_value(partition))


# A start reads and rewrites every partition, and most values are the same: one leader, one epoch.
@lru_cache(maxsize=4096)
def _partition_value(partition: PartitionImage) -> bytes:
    body: dict[str, Any] = {
        "leader": partition.leader,
        "epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
    }
    if partition.partition_epoch:
        body["partitionEpoch"] = partition.partition_epoch
    if partition.elr:
        body["elr"] = partition.elr
    if partition.last_known_leader != NO_BROKER:
        body["lastKnownLeader"] = partition.last_known_leader
    if partition.adding:
        body["adding"] = partition.adding
    if partition.removing:
        body["removing"] = partition.removing
    if partition.is_recovering:
        body["recovering"] = True
    return _encode(body).encode()


def put_configs(resource_type: int, name: str, overrides: Mapping[str, str]) -> Change:
    """Returns the change that writes the overrides of a resource other than a topic.

    Without overrides it removes the entry.
    """
    key = config_key(resource_type, name)
    return _put(key, dict(overrides)) if overrides else Change(key, None)


def rewrite_configs(resource_type: int, name: str, overrides: Mapping[str, str]) -> Change:
    """Returns the change that gives the entry a new revision, also if it has no overrides."""
    return _put(config_key(resource_type, name), dict(overrides))


def _put(key: str, body: Mapping[str, Any]) -> Change:
    return Change(key, _encode(body).encode())


def apply(image: MetadataImage, revision: int, entries: Mapping[str, Versioned | None]) -> MetadataImage:
    """Returns the image after a commit, whatever the order of `entries`.

    The first commit of a store holds everything and is applied to `EMPTY_IMAGE`. Raises NewerMetadata if the store has
    a higher version, or a key that this version does not know: an older program must not serve metadata of a newer one.
    """
    by_room: dict[str, list[tuple[str, Versioned | None]]] = {}
    for key, entry in entries.items():
        room, _, rest = key.partition("/")
        by_room.setdefault(room, []).append((rest, entry))
    metadata_version = _single(by_room, _FEATURES_KEY, _METADATA_VERSION, image.metadata_version)
    check_version(metadata_version)
    for room in by_room:
        check_kind(room)
    live = _apply_live(image.live, by_room.get("live", []))
    brokers, registrations = image.brokers, image.registrations
    if "brokers" in by_room or "live" in by_room:
        registrations = _apply_registrations(registrations, by_room.get("brokers", []), live)
        brokers = _live_brokers(registrations, live)
    topics = TopicFold(image)
    topics.apply(by_room.get("topics", []), by_room.get("partitions", []))
    return MetadataImage(
        revision=revision,
        cluster_id=_single(by_room, CLUSTER_KEY, "id", image.cluster_id),
        topics=topics.by_name,
        topics_by_id=topics.by_id,
        names_by_collision_key=topics.names,
        brokers=brokers,
        registrations=registrations,
        live=live,
        configs=_apply_configs(image.configs, by_room.get("configs", [])),
        next_producer_id=_single(by_room, _PRODUCER_IDS_KEY, "next", image.next_producer_id),
        next_broker_id=_single(by_room, _BROKER_IDS_KEY, "next", image.next_broker_id),
        metadata_version=metadata_version,
        parts=topics.parts,
        topic_configs_revision=revision if topics.changes_configs else image.topic_configs_revision,
    )


def _single(by_room: Mapping[str, list[tuple[str, Versioned | None]]], key: str, field: str, present: T) -> T:
    """Returns the field of an entry whose key has no second part, `present` if the commit doesn't have the entry."""
    if key not in by_room:
        return present
    ((_, entry),) = by_room[key]
    value: T = _body(entry)[field]
    return value


def _body(entry: Versioned | None) -> dict[str, Any]:
    assert entry is not None
    body = json.loads(entry.value)
    assert isinstance(body, dict)
    return body


def _apply_live(
    live: Mapping[BrokerId, LiveBroker], entries: list[tuple[str, Versioned | None]]
) -> Mapping[BrokerId, LiveBroker]:
    if not entries:
        return live
    changed = dict(live)
    for text, entry in entries:
        broker_id = BrokerId(int(text))
        if entry is None:
            changed.pop(broker_id, None)
        else:
            body = _body(entry)
            changed[broker_id] = LiveBroker(body["incarnation"], entry.create_revision, body.get("stopping", False))
    return changed


def _apply_registrations(
    registrations: Mapping[BrokerId, BrokerImage],
    entries: list[tuple[str, Versioned | None]],
    live: Mapping[BrokerId, LiveBroker],
) -> Mapping[BrokerId, BrokerImage]:
    changed = dict(registrations)
    for text, entry in entries:
        broker_id = BrokerId(int(text))
        if entry is None:
            changed.pop(broker_id, None)
        else:
            body = _body(entry)
            endpoints = {name: Endpoint(*address) for name, address in body.get("endpoints", {}).items()}
            changed[broker_id] = BrokerImage(
                broker_id,
                body["host"],
                body["port"],
                body["rack"],
                NO_EPOCH,
                endpoints,
                metadata_version=body.get("metadataVersion", 1),
                latest_run=body.get("incarnation", ""),
            )
    for broker_id, broker in changed.items():
        run = live.get(broker_id, _NOT_LIVE)
        if (broker.incarnation, broker.epoch, broker.is_stopping) != run:
            incarnation, epoch, is_stopping = run
            changed[broker_id] = broker._replace(incarnation=incarnation, epoch=epoch, is_stopping=is_stopping)
    return changed


def _live_brokers(
    registrations: Mapping[BrokerId, BrokerImage], live: Mapping[BrokerId, LiveBroker]
) -> Mapping[BrokerId, BrokerImage]:
    brokers = {broker_id: broker for broker_id, broker in registrations.items() if broker_id in live}
    for broker_id, run in live.items():
        if broker_id not in registrations:
            incarnation, epoch, _ = run
            brokers[broker_id] = BrokerImage(broker_id, "", -1, None, epoch, incarnation=incarnation, is_stopping=True)
    return brokers


def _apply_configs(
    configs: Mapping[tuple[int, str], Mapping[str, str]], entries: list[tuple[str, Versioned | None]]
) -> Mapping[tuple[int, str], Mapping[str, str]]:
    if not entries:
        return configs
    changed = dict(configs)
    for path, entry in entries:
        resource_type, _, name = path.partition("/")
        if entry is None:
            changed.pop((int(resource_type), name), None)
        else:
            changed[int(resource_type), name] = _body(entry)
    # An entry may be written again without a change. Subscribers compare images by identity.
    return configs if changed == configs else changed
