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
        "doc": "When records are written to the disk (fsync), in addition to flush.messages and flush.ms. os: when "
        "the operating system writes them, as Kafka does. interval: every klamm.fsync.interval.ms. ack: at "
        "once; a record is committed, visible to consumers and acknowledged to acks=all only after its sync, "
        "so it survives a power failure. Requests that wait at the same time share a sync.",
    },
    "klamm.fsync.interval.ms": {
        "type": "INT",
        "default": "1000",
        "importance": "LOW",
        "valid": "[100,...]",
        "check": ["range", 100, None],
        "doc": "How often records are synced to the disk with klamm.fsync=interval.",
    },
    "klamm.group.ephemeral.patterns": {
        "type": "LIST",
        "default": "",
        "importance": "LOW",
        "doc": "Patterns of the ids of short-lived groups, such as console-consumer-*: * stands for any characters, "
        "? for one, [...] for one of those in the brackets. The offsets of such groups are kept for "
        "klamm.group.ephemeral.retention.ms instead of offsets.retention.minutes.",
    },
    "klamm.group.ephemeral.retention.ms": {
        "type": "LONG",
        "default": "3600000",
        "importance": "LOW",
        "valid": "[1,...]",
        "check": ["range", 1, None],
        "doc": "How long offsets are kept if the id of their group matches one of klamm.group.ephemeral.patterns. "
        "The time begins as with offsets.retention.minutes: when the group becomes empty, or at the commit if"
        " the group never had members or no longer reads the topic.",
    },
    "klamm.group.history.enable": {
        "type": "BOOLEAN",
        "default": "true",
        "importance": "LOW",
        "doc": "Whether each change of a group (members that joined or left, the reason, moved partitions, paused "
        "members) becomes a record in the topic __group_history.",
    },
    "klamm.group.history.retention.ms": {
        "type": "LONG",
        "default": "604800000",
        "importance": "LOW",
        "valid": "[-1,...]",
        "check": ["range", -1, None],
        "doc": "The retention.ms with which the topic __group_history is created, -1 for no limit. If the topic "
        "exists, change retention.ms of the topic instead.",
    },
    "klamm.group.rebalance.batch.ms": {
        "type": "INT",
        "default": "0",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "How long a stable classic group waits for more members to join or leave before it rebalances once "
        "for all of them. Its members continue to read meanwhile. 0 rebalances at once, as Kafka does. For "
        "groups of the consumer protocol, set group.consumer.assignment.interval.ms.",
    },
    "klamm.group.traffic.interval.ms": {
        "type": "INT",
        "default": "5000",
        "importance": "LOW",
        "valid": "[100,...]",
        "check": ["range", 100, None],
        "doc": "How often the broker measures how fast partitions grow. The assignor load, the metrics of lag and "
        "needed members, and the history of what limits a group use these measurements.",
    },
    "klamm.metadata": {
        "type": "STRING",
        "default": "",
        "importance": "HIGH",
        "doc": "The URL of the metadata store in etcd that the brokers of a cluster share, such as "
        "etcd://host:2379,host2:2379/prefix. Empty: the broker is the only one, and its metadata is in its data "
        "folder. Needs the extra cluster: pip install '.[cluster]' in a clone of klamm.",
    },
    "klamm.metrics.listener": {
        "type": "STRING",
        "default": "",
        "importance": "LOW",
        "doc": "The address of the metrics over HTTP in Prometheus' format, as HOST:PORT; port 0 chooses a free one."
        " Empty: no metrics. Clients address it by an IP address, localhost, the machine's name, or a host "
        "name in this key, listeners or advertised.listeners; requests for other names are refused. Needs the"
        " extra metrics: pip install '.[metrics]' in a clone of klamm.",
    },
    "klamm.offsets.commit.linger.ms": {
        "type": "INT",
        "default": None,
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "How long an OffsetCommit waits for others before it is written and answered: of several commits of "
        "one partition, only the last is written. 0 writes each commit at once. If not set, "
        "group.coordinator.append.linger.ms applies; its default waits only as long as there are other "
        "requests to handle.",
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
        "doc": "How long a partition remembers its previous owner in a consumer group: if that member joins again "
        "within this time, the server-side assignors prefer it. Static members are recognised by their "
        "instance id, others by their member id.",
    },
    "klamm.consumer.assignor.load.hysteresis.ratio": {
        "type": "DOUBLE",
        "default": "0.2",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["finite", 0],
        "doc": "The minimum difference between the loads of two members, as a part of the smaller load, for the "
        "assignor load to move a partition; also the minimum decrease of the highest load for a rebalance by "
        "load alone.",
    },
    "klamm.consumer.assignor.load.lag.drain.ms": {
        "type": "INT",
        "default": "300000",
        "importance": "LOW",
        "valid": "[1,...]",
        "check": ["range", 1, None],
        "doc": "The time in which the group should process its lag. A shorter time gives lag more weight relative to"
        " the arrival rate in the assignor load, and raises the number of needed members.",
    },
    "klamm.consumer.assignor.load.min.dwell.ms": {
        "type": "INT",
        "default": "300000",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "The minimum time between a rebalance and the next one by load alone, and between two moves of a "
        "partition by load.",
    },
    "klamm.consumer.assignor.load.partition.cost": {
        "type": "DOUBLE",
        "default": "1.0",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["finite", 0],
        "doc": "The load of a partition without new records, in records per second, for the assignor load.",
    },
    "klamm.consumer.assignor.load.target.lag": {
        "type": "LONG",
        "default": "0",
        "importance": "LOW",
        "valid": "[0,...]",
        "check": ["range", 0, None],
        "doc": "The lag of the whole group, in records, that the number of needed members is computed for: they "
        "reach this lag within klamm.consumer.assignor.load.lag.drain.ms.",
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
    "doc": "The cost of a record of the topic named at the end of the key, relative to other topics, for the "
    "assignor load.",
}
"""A group has such a key for each topic: the prefix and the topic's name."""
