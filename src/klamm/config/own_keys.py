"""klamm's own keys, in the format of the table of Kafka's keys (`kafka_configs.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["OWN_BROKER_KEYS", "OWN_GROUP_KEYS", "TOPIC_WEIGHT", "TOPIC_WEIGHT_PREFIX"]

OWN_BROKER_KEYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "klamm.cluster.id": {
        "type": "STRING",
        "default": None,
        "importance": "LOW",
        "valid": "non-empty string",
        "check": ["non_empty"],
        "doc": "The cluster id that a new data folder gets. A folder that has one already keeps it, and the broker "
        "does not start when the two differ.",
    },
    "klamm.fsync": {
        "type": "STRING",
        "default": "os",
        "importance": "MEDIUM",
        "valid": "[os, interval, ack]",
        "check": ["one_of", ["os", "interval", "ack"]],
        "doc": "When records are brought to the disk, beside what flush.messages and flush.ms ask for. os: when the "
        "operating system writes them, as Kafka does. interval: every klamm.fsync.interval.ms. ack: at once, and a "
        "record is committed, shown to consumers and acknowledged to acks=all only when it would outlast a power "
        "failure; requests that wait at the same time share a sync.",
    },
    "klamm.fsync.interval.ms": {
        "type": "INT",
        "default": "1000",
        "importance": "LOW",
        "valid": "[100,...]",
        "check": ["range", 100, None],
        "doc": "How often records are brought to the disk with klamm.fsync=interval.",
    },
    "klamm.group.ephemeral.patterns": {
        "type": "LIST",
        "default": "",
        "importance": "LOW",
        "doc": "Patterns of the ids of groups that are soon forgotten, such as console-consumer-*: * stands for any "
        "characters, ? for one, [...] for one of those in the brackets. What such groups commit is kept for "
        "klamm.group.ephemeral.retention.ms instead of offsets.retention.minutes.",
    },
    "klamm.group.ephemeral.retention.ms": {
        "type": "LONG",
        "default": "3600000",
        "importance": "LOW",
        "valid": "[1,...]",
        "check": ["range", 1, None],
        "doc": "How long the offsets of a group are kept whose id matches one of klamm.group.ephemeral.patterns. The "
        "time begins as that of offsets.retention.minutes does: when the group became empty, or with the commit where "
        "the group never had members or its topic is read no more.",
    },
    "klamm.group.history.enable": {
        "type": "BOOLEAN",
        "default": "true",
        "importance": "LOW",
        "doc": "Whether each change of a group (who came or went, why, what moved, who stood still for how long) "
        "becomes a record in the topic __group_history.",
    },
    "klamm.group.history.retention.ms": {
        "type": "LONG",
        "default": "604800000",
        "importance": "LOW",
        "valid": "[-1,...]",
        "check": ["range", -1, None],
        "doc": "The retention.ms with which the topic __group_history is made, -1 for no end. Once the topic is there, "
        "it is changed on the topic.",
    },
    "klamm.group.rebalance.batch.ms": {
        "type": "INT",
        "default": "0",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "How long a stable classic group waits for further members to come or go before it rebalances, once "
        "for all of them. Its members go on reading meanwhile. 0 rebalances at once, as Kafka does. Groups of the "
        "consumer protocol have group.consumer.assignment.interval.ms.",
    },
    "klamm.group.traffic.interval.ms": {
        "type": "INT",
        "default": "5000",
        "importance": "LOW",
        "valid": "[100,...]",
        "check": ["range", 100, None],
        "doc": "How often the broker looks how fast partitions grow. Groups that are assigned by load are held "
        "against these figures, and the page of figures shows lag and members needed by them.",
    },
    "klamm.metrics.listener": {
        "type": "STRING",
        "default": "",
        "importance": "LOW",
        "doc": "Where figures are served over HTTP in Prometheus' format, as HOST:PORT; port 0 takes a free one. Empty "
        "for nowhere. Clients call it by an IP address, localhost, the machine's name, or a host name in this key, "
        "listeners or advertised.listeners; requests for other names are refused. Needs the extra metrics: pip "
        "install '.[metrics]' in a clone of klamm.",
    },
    "klamm.offsets.commit.linger.ms": {
        "type": "INT",
        "default": None,
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "How long an OffsetCommit waits for others before it is written and answered: commits of a partition "
        "that meet are written as one, the last. 0 writes each at once. Where it is not set, "
        "group.coordinator.append.linger.ms says it, whose default waits only as long as there are other requests to "
        "handle.",
    },
}
"""Keys by name."""

OWN_GROUP_KEYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "klamm.consumer.assignor.previous.owner.ms": {
        "type": "INT",
        "default": "300000",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "How long a partition remembers the member of a consumer group that it was taken from: if that member "
        "comes back within this time, the server-side assignors prefer it. Static members are recognised by their "
        "instance id, others by their member id.",
    },
    "klamm.consumer.assignor.load.hysteresis.ratio": {
        "type": "DOUBLE",
        "default": "0.2",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["finite", 0],
        "doc": "By how much of the lighter one's load two members have to differ before the assignor load moves a "
        "partition from one to the other, and how much the heaviest load has to fall for a rebalance by load alone.",
    },
    "klamm.consumer.assignor.load.lag.drain.ms": {
        "type": "INT",
        "default": "300000",
        "importance": "LOW",
        "valid": "[1,...]",
        "check": ["range", 1, None],
        "doc": "The time in which the group should work off its lag. The shorter, the more a partition's lag weighs "
        "beside its arrival rate in the assignor load, and the more members are said to be needed.",
    },
    "klamm.consumer.assignor.load.min.dwell.ms": {
        "type": "INT",
        "default": "300000",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "How long the group rests after a rebalance before load alone is cause for another, and a partition "
        "after it moved.",
    },
    "klamm.consumer.assignor.load.partition.cost": {
        "type": "DOUBLE",
        "default": "1.0",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["finite", 0],
        "doc": "What a partition costs its member even if nothing arrives in it, in records a second, for the assignor "
        "load.",
    },
    "klamm.consumer.assignor.load.target.lag": {
        "type": "LONG",
        "default": "0",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "The lag of the whole group, in records, that the members said to be needed would come down to within "
        "klamm.consumer.assignor.load.lag.drain.ms.",
    },
}
"""Keys by name."""

TOPIC_WEIGHT_PREFIX: Final = "klamm.consumer.assignor.load.topic.weight."
TOPIC_WEIGHT: Final[Mapping[str, Any]] = {
    "type": "DOUBLE",
    "default": "1.0",
    "importance": "LOW",
    "valid": "[0,...]",
    "check": ["finite", 0],
    "doc": "How much dearer than usual a record of the topic is, whose name ends this key, for the assignor load.",
}
"""A group has such a key for each topic: the prefix and the topic's name."""
