"""Encodes metadata as keys and values, and decodes it: every image is a fold of commits.

    cluster                          {"id": text}
    producer-ids                     {"next": first id of the next block}
    brokers/<id>                     {"host": text, "port": number, "rack": text or null}
    topics/<collision key>           {"name": text, "id": 22 characters, "configs": {key: value}}
    partitions/<topic id>/<index>    {"leader": id, "epoch": number, "replicas": [id], "isr": [id]}
    configs/<resource type>/<name>   {key: value}

A topic's key is its collision key (see `topic_name`), so that two brokers cannot create `a.b` and `a_b` at the same
moment. Values are JSON, so that a person can read them with sqlite3 or etcdctl, and a later version can add fields.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, ResourceType, TopicImage
from klamm.metadata.metadata_store import Change, Versioned
from klamm.metadata.topic_name import collision_key
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

__all__ = [
    "apply",
    "broker_key",
    "config_key",
    "partition_key",
    "put_broker",
    "put_cluster",
    "put_configs",
    "put_partition",
    "put_producer_ids",
    "put_topic",
    "topic_key",
    "uuid_text",
]

_CLUSTER_KEY: Final = "cluster"
_PRODUCER_IDS_KEY: Final = "producer-ids"

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


@lru_cache(maxsize=256)
def uuid_text(uuid: bytes) -> str:
    """Returns Kafka's text form of 16 bytes: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def _uuid_bytes(text: str) -> TopicId:
    return TopicId(base64.urlsafe_b64decode(text + "=="))


def broker_key(broker_id: BrokerId) -> str:
    return f"brokers/{broker_id}"


def topic_key(name: str) -> str:
    return f"topics/{collision_key(name)}"


def partition_key(topic_id: TopicId, index: PartitionIndex) -> str:
    return f"partitions/{uuid_text(topic_id)}/{index}"


def config_key(resource_type: int, name: str) -> str:
    """Returns the key for the overrides of a resource other than a topic, whose overrides are in its own entry."""
    assert resource_type != ResourceType.TOPIC
    return f"configs/{int(resource_type)}/{name}"


def put_cluster(cluster_id: str) -> Change:
    return _put(_CLUSTER_KEY, {"id": cluster_id})


def put_producer_ids(next_producer_id: int) -> Change:
    return _put(_PRODUCER_IDS_KEY, {"next": next_producer_id})


def put_broker(broker_id: BrokerId, host: str, port: int, rack: str | None) -> Change:
    return _put(broker_key(broker_id), {"host": host, "port": port, "rack": rack})


def put_topic(topic: TopicImage) -> Change:
    """Returns the change that writes the topic's own entry, without its partitions."""
    body = {"name": topic.name, "id": uuid_text(topic.topic_id), "configs": dict(topic.configs)}
    return _put(topic_key(topic.name), body)


def put_partition(topic_id: TopicId, partition: PartitionImage) -> Change:
    return Change(partition_key(topic_id, partition.index), _partition_value(partition))


# A start reads and rewrites every partition, and most values are the same: one leader, one epoch.
@lru_cache(maxsize=4096)
def _partition_value(partition: PartitionImage) -> bytes:
    body = {
        "leader": partition.leader,
        "epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
    }
    return _encode(body).encode()


def put_configs(resource_type: int, name: str, overrides: Mapping[str, str]) -> Change:
    """Returns the change that writes the overrides of a resource other than a topic.

    Without overrides it removes the entry.
    """
    key = config_key(resource_type, name)
    return _put(key, dict(overrides)) if overrides else Change(key, None)


def _put(key: str, body: Mapping[str, Any]) -> Change:
    return Change(key, _encode(body).encode())


def apply(image: MetadataImage, revision: int, entries: Mapping[str, Versioned | None]) -> MetadataImage:
    """Returns the image after a commit, whatever the order of `entries`.

    The first commit of a store holds everything and is applied to `EMPTY_IMAGE`. Raises ValueError for a key that this
    version does not know: an older program must not serve metadata of a newer one.
    """
    by_room: dict[str, list[tuple[str, Versioned | None]]] = {}
    for key, entry in entries.items():
        room, _, rest = key.partition("/")
        by_room.setdefault(room, []).append((rest, entry))
    cluster_id, next_producer_id = image.cluster_id, image.next_producer_id
    for _, entry in by_room.pop(_CLUSTER_KEY, ()):
        cluster_id = _body(entry)["id"]
    for _, entry in by_room.pop(_PRODUCER_IDS_KEY, ()):
        next_producer_id = _body(entry)["next"]
    brokers = _apply_brokers(image.brokers, by_room.pop("brokers", []))
    configs = _apply_configs(image.configs, by_room.pop("configs", []))
    topics = _Topics(image)
    # Topics first: a new topic's partitions need it, a removed topic's partitions are removed with it.
    for key, entry in by_room.pop("topics", []):
        topics.change_topic(key, entry)
    topics.change_partitions(by_room.pop("partitions", []))
    if by_room:
        raise ValueError(f"metadata of a newer version: no such kind of entry: {', '.join(sorted(by_room))}")
    return MetadataImage(
        revision=revision,
        cluster_id=cluster_id,
        topics=topics.by_name,
        topics_by_id=topics.by_id,
        names_by_collision_key=topics.names,
        brokers=brokers,
        configs=configs,
        next_producer_id=next_producer_id,
    )


def _body(entry: Versioned | None) -> dict[str, Any]:
    assert entry is not None
    body = json.loads(entry.value)
    assert isinstance(body, dict)
    return body


def _apply_brokers(
    brokers: Mapping[BrokerId, BrokerImage], entries: list[tuple[str, Versioned | None]]
) -> Mapping[BrokerId, BrokerImage]:
    if not entries:
        return brokers
    changed = dict(brokers)
    for text, entry in entries:
        broker_id = BrokerId(int(text))
        if entry is None:
            changed.pop(broker_id, None)
        else:
            body = _body(entry)
            changed[broker_id] = BrokerImage(
                broker_id, body["host"], body["port"], body["rack"], epoch=entry.create_revision
            )
    return changed


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
    return changed


class _Topics:
    """The image's three views of its topics while a commit is applied. They are copied at the first change only."""

    def __init__(self, image: MetadataImage) -> None:
        self.by_name = image.topics
        self.by_id = image.topics_by_id
        self.names = image.names_by_collision_key
        self._copied = False

    def _writable(self) -> tuple[dict[str, TopicImage], dict[TopicId, TopicImage], dict[str, str]]:
        if not self._copied:
            self.by_name, self.by_id, self.names = dict(self.by_name), dict(self.by_id), dict(self.names)
            self._copied = True
        assert isinstance(self.by_name, dict)
        assert isinstance(self.by_id, dict)
        assert isinstance(self.names, dict)
        return self.by_name, self.by_id, self.names

    def _store(self, topic: TopicImage) -> None:
        by_name, by_id, names = self._writable()
        by_name[topic.name] = by_id[topic.topic_id] = topic
        names[collision_key(topic.name)] = topic.name

    def _remove(self, key: str) -> None:
        by_name, by_id, names = self._writable()
        name = names.pop(key, None)
        if name is not None:
            del by_id[by_name.pop(name).topic_id]

    def change_topic(self, key: str, entry: Versioned | None) -> None:
        if entry is None:
            self._remove(key)
            return
        body = _body(entry)
        topic_id = _uuid_bytes(body["id"])
        old = self.by_id.get(topic_id)
        if old is None:
            # The name may have belonged to another topic, which was deleted and created again between two events of a
            # watch.
            self._remove(key)
        self._store(TopicImage(body["name"], topic_id, () if old is None else old.partitions, body["configs"]))

    def change_partitions(self, entries: list[tuple[str, Versioned | None]]) -> None:
        by_topic: dict[str, list[PartitionImage]] = {}
        for path, entry in entries:
            topic_id, _, index = path.partition("/")
            if entry is None:
                assert _uuid_bytes(topic_id) not in self.by_id, "partitions go only with their topic"
            else:
                by_topic.setdefault(topic_id, []).append(_partition(int(index), entry.value))
        for text, changed in by_topic.items():
            topic = self.by_id[_uuid_bytes(text)]
            partitions = {partition.index: partition for partition in topic.partitions}
            partitions.update((partition.index, partition) for partition in changed)
            ordered = tuple(partitions[index] for index in sorted(partitions))
            assert ordered[-1].index == len(ordered) - 1, "partitions are numbered without gaps"
            self._store(TopicImage(topic.name, topic.topic_id, ordered, topic.configs))


@lru_cache(maxsize=4096)
def _partition(index: int, value: bytes) -> PartitionImage:
    body = json.loads(value)
    return PartitionImage(
        PartitionIndex(index),
        BrokerId(body["leader"]),
        LeaderEpoch(body["epoch"]),
        tuple(body["replicas"]),
        tuple(body["isr"]),
    )
