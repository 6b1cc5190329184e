"""`klamm group clone`: gives a group the offsets of another group, or those of a point in time. Shows them first."""

from __future__ import annotations

import argparse
import os

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from klamm.cli.cluster_options import access_of
from klamm.cli.context.context_file import ContextFiles, context_paths
from klamm.cli.context.target import gave_only_an_address
from klamm.cli.errors import UsageError
from klamm.cli.output import say, show_rows
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group.group_offsets import check_has_no_members, commit_for, offsets_at
from klamm.insight.words import PartitionKey, count

__all__ = ["COLUMNS", "run"]

COLUMNS = ("topic", "partition", "source", "from", "to")


def run(arguments: argparse.Namespace) -> int:
    """Shows the changes, and applies them with --execute.

    Raises KlammError if the source has no commits or the target has members.
    """
    if arguments.source == arguments.target:
        raise UsageError("source and target are the same group")
    for group in (arguments.source, arguments.target):
        _check_is_here(arguments, group)
    access = access_of(arguments)
    admin = access.admin_client()
    source = _commits(access, admin, arguments.source)
    if not source:
        raise ClusterError(
            f"group {arguments.source} has committed nothing on {arguments.bootstrap_server}; "
            "`klamm group list` shows the groups there are, by their complete ids"
        )
    check_has_no_members(access, admin, arguments.target)
    target = _commits(access, admin, arguments.target)
    wanted = _at(access, admin, source, arguments.at) if arguments.at is not None else source
    rows = [
        {
            "topic": topic,
            "partition": index,
            "source": source[topic, index].offset,
            "from": target[topic, index].offset if (topic, index) in target else None,
            "to": partition.offset,
        }
        for (topic, index), partition in sorted(wanted.items())
    ]
    show_rows(arguments, COLUMNS, rows)
    _say_what_stays(arguments, target.keys() - wanted.keys())
    if not arguments.execute:
        say(arguments, "nothing was changed: this is what --execute would do")
        return 0
    commit_for(access, admin, arguments.target, [wanted[key] for key in sorted(wanted)])
    say(arguments, f"group {arguments.target}: {count(len(wanted), 'offset')} set")
    return 0


def _check_is_here(arguments: argparse.Namespace, group: str) -> None:
    """Raises UsageError if the group's environment is on another cluster, unless an address was given."""
    if gave_only_an_address(arguments):
        return
    environment = group.partition(".")[0]
    files = ContextFiles(context_paths(os.environ))
    there = [each for each in files.contexts.values() if each.environment == environment and "." in group]
    if there and arguments.bootstrap_server not in {each.bootstrap_server for each in there}:
        raise UsageError(
            f"{group}: environment {environment} is on {there[0].bootstrap_server} (context {there[0].name}), and this "
            f"goes to {arguments.bootstrap_server}: offsets of one cluster mean nothing on another. Where it is one "
            "cluster with two addresses, say -b; `klamm group reset --to-datetime` places a group by time"
        )


def _commits(access: ClusterAccess, admin: AdminClient, group: str) -> dict[PartitionKey, TopicPartition]:
    """Returns a group's commits, with the leader epochs and metadata, which the clone copies too."""
    request = ConsumerGroupTopicPartitions(group)
    result = access.result_of(admin.list_consumer_group_offsets([request])[group])
    return {
        (each.topic, each.partition): each
        for each in result.topic_partitions
        if each.error is None and each.offset >= 0
    }


def _at(
    access: ClusterAccess, admin: AdminClient, source: dict[PartitionKey, TopicPartition], timestamp_ms: int
) -> dict[PartitionKey, TopicPartition]:
    """Returns for each of the source's partitions the first offset at or after the timestamp, or the end offset."""
    return {
        (topic, index): TopicPartition(topic, index, offset)
        for (topic, index), offset in offsets_at(access, admin, list(source), timestamp_ms).items()
    }


def _say_what_stays(arguments: argparse.Namespace, keys: set[PartitionKey]) -> None:
    if keys:
        they, them = ("it is", "it") if len(keys) == 1 else ("they are", "them")
        what = f"{count(len(keys), 'offset')} of {arguments.target}"
        stays = ("stays" if len(keys) == 1 else "stay") if arguments.execute else "would stay"
        say(arguments, f"{what} {stays} as {they}: {arguments.source} has committed nothing for {them}")
