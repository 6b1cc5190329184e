"""`klamm topic describe`: shows the partitions of topics, or each replica of them, or the topics' configuration."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from typing import Any, Final

from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from klamm.cli.cluster_options import access_of
from klamm.cli.output import id_list, say, show_rows
from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.topic.partition_states import PartitionState, TopicState
from klamm.insight.topic.topic_details import PartitionFilter, TopicDetails, read_topics
from klamm.insight.topic.topic_settings import TopicSettings
from klamm.insight.words import count

__all__ = ["CONFIG_COLUMNS", "PARTITION_COLUMNS", "REPLICA_COLUMNS", "configure", "run"]

PARTITION_COLUMNS: Final = (
    "topic",
    "partition",
    "leader",
    "replicas",
    "isr",
    "elr",
    "last_known_elr",
    "high_watermark",
    "lag",
    "size_bytes",
)
REPLICA_COLUMNS: Final = (
    "topic",
    "partition",
    "broker",
    "role",
    "in_sync",
    "in_elr",
    "log_end_offset",
    "high_watermark",
    "lag",
    "size_bytes",
)
CONFIG_COLUMNS: Final = ("topic", "key", "value", "source")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the topics, what to show of them, and the filters."""
    parser.add_argument("topics", nargs="*", metavar="topic", help="the topics (default: all, internal ones too)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("-c", "--configs", action="store_true", help="show the configuration instead of the partitions")
    shown.add_argument("-r", "--replicas", action="store_true", help="show each replica instead of each partition")
    parser.add_argument(
        "--under-replicated", action="store_true", help="only partitions with a replica that is not in sync"
    )
    parser.add_argument("--under-min-isr", action="store_true", help="only partitions that refuse writes with acks=all")
    parser.add_argument("--unavailable", action="store_true", help="only partitions without a leader")


def run(arguments: argparse.Namespace) -> int:
    """Prints the rows. Raises ClusterError if a topic does not exist."""
    access = access_of(arguments)
    if arguments.configs:
        show_rows(arguments, CONFIG_COLUMNS, list(_config_rows(access, arguments.topics)))
        return 0
    chosen = PartitionFilter(
        under_replicated=arguments.under_replicated,
        under_min_isr=arguments.under_min_isr,
        unavailable=arguments.unavailable,
    )
    topics = sorted(set(arguments.topics)) or None
    details = read_topics(access, topics, chosen, asks_followers=arguments.replicas)
    if arguments.replicas:
        show_rows(
            arguments, REPLICA_COLUMNS, [row for each in details.partitions for row in _replica_rows(details, each)]
        )
        return 0
    if chosen.chooses_all:
        for topic in details.topics.values():
            _say_head(arguments, topic, details.settings.get(topic.name))
    show_rows(arguments, PARTITION_COLUMNS, [_partition_row(details, each) for each in details.partitions])
    return 0


def _partition_row(details: TopicDetails, state: PartitionState) -> dict[str, Any]:
    """Returns the row of one partition."""
    positions = details.positions.get(state.key)
    return {
        "topic": state.topic,
        "partition": state.index,
        "leader": state.leader,
        "replicas": id_list(state.replicas),
        "isr": id_list(state.isr),
        "elr": id_list(state.elr),
        "last_known_elr": id_list(state.last_known_elr),
        "high_watermark": positions.high_watermark if positions is not None else None,
        "lag": positions.largest_lag if positions is not None else None,
        "size_bytes": positions.size_bytes if positions is not None else None,
    }


def _replica_rows(details: TopicDetails, state: PartitionState) -> Iterable[dict[str, Any]]:
    """Yields the replicas of a partition."""
    positions = details.positions.get(state.key)
    for broker in state.replicas:
        position = positions.of(broker) if positions is not None else None
        yield {
            "topic": state.topic,
            "partition": state.index,
            "broker": broker,
            "role": "leader" if broker == state.leader else "follower",
            "in_sync": broker in state.isr,
            "in_elr": None if state.elr is None else broker in state.elr,
            "log_end_offset": position.log_end_offset if position is not None else None,
            "high_watermark": position.high_watermark if position is not None else None,
            "lag": position.lag if position is not None else None,
            "size_bytes": position.size_bytes if position is not None else None,
        }


def _say_head(arguments: argparse.Namespace, topic: TopicState, settings: TopicSettings | None) -> None:
    """Says the size of a topic, and its configurations that differ from the default."""
    replicas = {len(each.replicas) for each in topic.partitions}
    factor = f"{min(replicas)} to {max(replicas)} replicas" if len(replicas) > 1 else count(max(replicas), "replica")
    head = f"topic {topic.name}: {count(len(topic.partitions), 'partition')}, {factor}"
    changed = [f"{key}={value}" for key, value in settings.changed.items()] if settings is not None else []
    say(arguments, ", ".join([head, *changed]))


def _config_rows(access: ClusterAccess, topics: Collection[str]) -> Iterable[dict[str, Any]]:
    admin = access.admin_client()
    names = topics or access.translate(lambda: admin.list_topics(timeout=TIMEOUT_S)).topics
    for topic in sorted(set(names)):
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            entries = access.result_of(admin.describe_configs([resource])[resource])
        except ClusterError as error:
            raise ClusterError(f"topic {topic}: {error}") from None
        for key, entry in sorted(entries.items()):
            yield {"topic": topic, "key": key, "value": entry.value, "source": ConfigSource(entry.source).name.lower()}
