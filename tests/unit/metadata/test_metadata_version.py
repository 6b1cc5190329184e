"""Tests that the table of metadata versions knows everything that is written to a metadata store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields

from klamm.metadata import entries
from klamm.metadata.image import PartitionImage, ResourceType, TopicImage
from klamm.metadata.metadata_store import Change
from klamm.metadata.metadata_version import FIRST_VERSION_WITH_FOLLOWERS, INTRODUCED, METADATA_VERSION
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

TOPIC_ID = TopicId(bytes(16))
ENDPOINTS = {"PLAINTEXT": ("h", 9092)}
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
FRESH = PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE,), (ONE,))
FULL = PartitionImage(
    PartitionIndex(0),
    ONE,
    LeaderEpoch(0),
    (ONE, TWO),
    (ONE,),
    partition_epoch=1,
    elr=(TWO,),
    last_known_leader=TWO,
    adding=(TWO,),
    removing=(THREE,),
    is_recovering=True,
)

WRITTEN: Mapping[str, list[Change]] = {
    "put_cluster": [entries.put_cluster("MkU3OEVBNTcwNTJENDM2Qk")],
    "put_producer_ids": [entries.put_producer_ids(1000)],
    "put_broker_ids": [entries.put_broker_ids(4)],
    "put_features": [entries.put_features(METADATA_VERSION)],
    "put_broker": [entries.put_broker(ONE, ENDPOINTS, "rack", "run")],
    "put_live": [entries.put_live(ONE, "run", is_stopping=True)],
    "put_writer": [entries.put_writer("run", 1)],
    "put_topic": [entries.put_topic(TopicImage("t", TOPIC_ID, (FRESH,), {"retention.ms": "1"}))],
    "put_partition": [entries.put_partition(TOPIC_ID, FULL)],
    "put_configs": [entries.put_configs(ResourceType.BROKER, "", {"a": "b"})],
    "rewrite_configs": [entries.rewrite_configs(ResourceType.BROKER, "", {"a": "b"})],
}
"""Each function that writes an entry, with every field."""

FIRST_FIELDS: Mapping[str, set[str]] = {
    "cluster": {"id"},
    "producer-ids": {"next"},
    "broker-ids": {"next"},
    "features": {"metadata.version"},
    "brokers": {"host", "port", "rack"},
    "live": {"incarnation"},
    "topics": {"name", "id", "configs"},
    "partitions": {"leader", "epoch", "replicas", "isr"},
}
"""The fields that each kind had in its first version. A kind that is missing has no fields with a meaning: a number, or
the names of settings."""


def _fields_by_kind(changes: Iterable[Change]) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for change in changes:
        kind = change.key.partition("/")[0]
        found[kind] |= set(json.loads(change.value or b"")) if kind in FIRST_FIELDS else set()
    return found


def _version_of(change: Change) -> int:
    """Returns the lowest version in which the entry may be written."""
    ((kind, names),) = _fields_by_kind([change]).items()
    return max(INTRODUCED[kind], *(INTRODUCED.get(f"{kind}.{name}", 0) for name in names), 0)


def test_each_kind_and_each_younger_field_has_its_version() -> None:
    """A new kind of entry, or a new field, must get a version: brokers of an earlier one must not meet it before all
    brokers know it."""
    assert WRITTEN.keys() == {name for name in entries.__all__ if name.startswith(("put_", "rewrite_"))}
    written = _fields_by_kind(change for changes in WRITTEN.values() for change in changes)
    younger: dict[str, set[str]] = defaultdict(set)
    for name in INTRODUCED:
        kind, dot, field = name.partition(".")
        if dot:
            younger[kind].add(field)
    assert written == {kind: FIRST_FIELDS.get(kind, set()) | younger[kind] for kind in INTRODUCED if "." not in kind}
    assert max(INTRODUCED.values()) == METADATA_VERSION


def test_every_field_of_a_partition_is_written_here() -> None:
    """The full partition differs from a fresh one in each field that is left out if it has its default."""
    always = {"index", "leader", "leader_epoch", "replicas", "isr"}
    for field in fields(PartitionImage):
        if field.name not in always:
            assert getattr(FULL, field.name) != getattr(FRESH, field.name), field.name


def test_what_a_single_replica_needs_is_in_every_store_of_several_brokers() -> None:
    """Brokers, their sessions and partitions with one replica are written to stores of version 1 too."""
    below = FIRST_VERSION_WITH_FOLLOWERS
    assert _version_of(entries.put_broker(ONE, ENDPOINTS, None, "run")) < below
    assert _version_of(entries.put_live(ONE, "run")) < below
    assert _version_of(entries.put_partition(TOPIC_ID, FRESH)) < below
    assert _version_of(entries.put_partition(TOPIC_ID, FULL)) == below
