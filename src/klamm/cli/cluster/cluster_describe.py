"""`klamm cluster describe`: shows the brokers of a cluster, and the partitions that need attention."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection
from typing import Any, Final

from klamm.cli.cluster_options import access_of
from klamm.cli.output import id_list, say, show_rows
from klamm.insight.cluster.cluster_picture import BrokerPicture, ClusterPicture, read_cluster
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.words import PartitionKey, count, partition_names

__all__ = ["BROKER_COLUMNS", "configure", "run"]

BROKER_COLUMNS: Final = (
    "broker",
    "host",
    "port",
    "rack",
    "state",
    "leaders",
    "replicas",
    "in_sync",
    "size_bytes",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds --json."""
    parser.add_argument(
        "--json", action="store_true", help="one JSON object: the brokers, the partitions that need attention"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the picture. Returns 0 also if partitions need attention. Raises ClusterError."""
    with ClusterRequests(access_of(arguments)) as requests:
        picture = read_cluster(requests)
    if arguments.json:
        print(json.dumps(_document(picture), indent=2))
        return 0
    controller = "none" if picture.controller is None else str(picture.controller)
    say(arguments, f"cluster {picture.cluster_id}, controller {controller}")
    say(arguments, f"{count(picture.topics, 'topic')}, {count(picture.partitions, 'partition')}")
    show_rows(arguments, BROKER_COLUMNS, [_row(broker) for broker in picture.brokers])
    for broker in picture.brokers:
        for folder in broker.failed_folders:
            say(arguments, f"broker {broker.id}: {folder} is offline")
        if broker.is_cordoned:
            say(arguments, f"broker {broker.id} is cordoned: it gets no new replicas")
    for words, keys in (
        ("under-replicated", picture.under_replicated),
        ("without a leader", picture.unavailable),
        ("under min.insync.replicas", picture.under_min_isr),
        ("moving", [each.key for each in picture.moving]),
    ):
        say(arguments, f"{count(len(keys), 'partition')} {words}{_names(keys)}")
    return 0


def _names(keys: Collection[PartitionKey]) -> str:
    return f": {partition_names(keys)}" if keys else ""


def _row(broker: BrokerPicture) -> dict[str, Any]:
    return {
        "broker": broker.id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "state": broker.state,
        "leaders": broker.leaders,
        "replicas": broker.replicas,
        "in_sync": broker.in_sync,
        "size_bytes": broker.size_bytes,
    }


def _document(picture: ClusterPicture) -> dict[str, Any]:
    """Returns the picture as JSON data."""
    return {
        "cluster_id": picture.cluster_id,
        "controller": picture.controller,
        "topics": picture.topics,
        "partitions": picture.partitions,
        "brokers": [
            {**_row(each), "offline_log_dirs": list(each.failed_folders), "is_cordoned": each.is_cordoned}
            for each in picture.brokers
        ],
        "under_replicated": _list(picture.under_replicated),
        "unavailable": _list(picture.unavailable),
        "under_min_isr": _list(picture.under_min_isr),
        "moving": [
            {
                "topic": each.topic,
                "partition": each.index,
                "replicas": id_list(each.replicas),
                "adding": id_list(each.adding),
                "removing": id_list(each.removing),
            }
            for each in picture.moving
        ],
    }


def _list(keys: Collection[PartitionKey]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": index} for topic, index in keys]
