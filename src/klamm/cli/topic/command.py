"""`klamm topic`: create, list, alter, delete. `describe` and `skew` have their own modules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from klamm.cli.arguments import key_value, number_up_to
from klamm.cli.cluster_options import access_of, add_cluster_options
from klamm.cli.errors import UsageError
from klamm.cli.output import add_output_option, say, show_rows
from klamm.cli.topic import topic_describe, topic_skew
from klamm.config.nearest import suggestion
from klamm.config.table import topic_keys
from klamm.insight.cluster_access import TIMEOUT_S
from klamm.insight.errors import ClusterError
from klamm.protocol.errors import ErrorCode

__all__ = ["configure", "run"]

# librdkafka sends no larger numbers.
_MOST_PARTITIONS: Final = 100_000
_MOST_REPLICAS: Final = 10_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm topic`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    create = verbs.add_parser("create", help="create a topic")
    create.add_argument("topic")
    create.add_argument(
        "-p",
        "--partitions",
        type=number_up_to(_MOST_PARTITIONS),
        default=-1,
        help="how many (default: the broker's num.partitions)",
    )
    create.add_argument(
        "-r",
        "--replication-factor",
        type=number_up_to(_MOST_REPLICAS),
        default=-1,
        help="how many copies (default: the broker's)",
    )
    create.add_argument(
        "-c",
        "--config",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help="a topic configuration; may be repeated",
    )

    listing = verbs.add_parser("list", help="list topics")
    listing.add_argument("-a", "--all", action="store_true", help="internal topics too")

    describe = verbs.add_parser("describe", help="show the partitions and replicas of topics, or their configuration")
    topic_describe.configure(describe)

    alter = verbs.add_parser("alter", help="change a topic's configuration or add partitions")
    alter.add_argument("topic")
    alter.add_argument(
        "-p",
        "--partitions",
        type=number_up_to(_MOST_PARTITIONS),
        help="how many there are to be in all; they never become fewer",
    )
    alter.add_argument(
        "-c",
        "--config",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help="set; may be repeated",
    )
    alter.add_argument(
        "-d", "--delete-config", action="append", default=[], metavar="KEY", help="back to the default; may be repeated"
    )

    delete = verbs.add_parser("delete", help="delete topics and all that is in them")
    delete.add_argument("topics", nargs="+", metavar="topic")

    for verb in (create, listing, describe, alter, delete):
        add_cluster_options(verb)
        add_output_option(verb)

    skew = verbs.add_parser("skew", help="show each partition's share and the hottest keys, from a sample")
    topic_skew.configure(skew)
    add_cluster_options(skew)


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb.

    Raises KlammError if the cluster refuses a request.
    """
    verbs = {
        "create": _create,
        "list": _list,
        "describe": topic_describe.run,
        "alter": _alter,
        "delete": _delete,
        "skew": topic_skew.run,
    }
    return verbs[arguments.verb](arguments)


def _create(arguments: argparse.Namespace) -> int:
    new = NewTopic(
        arguments.topic,
        num_partitions=arguments.partitions,
        replication_factor=arguments.replication_factor,
        config=dict(arguments.config),
    )
    admin = access_of(arguments).admin_client()
    with _suggesting(dict(arguments.config)):
        access_of(arguments).result_of(admin.create_topics([new])[arguments.topic])
    say(arguments, f"created topic {arguments.topic}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    admin = access_of(arguments).admin_client()
    topics = access_of(arguments).translate(lambda: admin.list_topics(timeout=TIMEOUT_S)).topics
    rows = [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
        }
        for name, topic in sorted(topics.items())
        if arguments.all or not name.startswith("__")
    ]
    show_rows(arguments, ("topic", "partitions", "replication_factor"), rows)
    return 0


def _alter(arguments: argparse.Namespace) -> int:
    if not arguments.config and not arguments.delete_config and arguments.partitions is None:
        raise UsageError("nothing to alter: give -p, -c or -d")
    admin = access_of(arguments).admin_client()
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in dict(arguments.config).items()
    ]
    entries += [
        ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in arguments.delete_config
    ]
    if entries:
        resource = ConfigResource(ResourceType.TOPIC, arguments.topic, incremental_configs=entries)
        with _suggesting([*dict(arguments.config), *arguments.delete_config]):
            access_of(arguments).result_of(admin.incremental_alter_configs([resource])[resource])
    if arguments.partitions is not None:
        new = NewPartitions(arguments.topic, arguments.partitions)
        with _suggesting(()):
            access_of(arguments).result_of(admin.create_partitions([new])[arguments.topic])
    say(arguments, f"altered topic {arguments.topic}")
    return 0


@contextmanager
def _suggesting(keys: Iterable[str]) -> Iterator[None]:
    """Adds the nearest known key to a broker's error about an unknown key, and where topics are shown to one about an
    unknown topic."""
    try:
        yield
    except ClusterError as error:
        known = topic_keys()
        hints = (suggestion(key, known) for key in keys if key not in known and key in str(error))
        raise ClusterError(f"{error}{''.join(hints)}{_next_step(error)}") from None


def _next_step(error: ClusterError) -> str:
    """Returns what to do if a topic is not there."""
    return "; `klamm topic list --all` shows the topics" if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""


def _delete(arguments: argparse.Namespace) -> int:
    status = 0
    admin = access_of(arguments).admin_client()
    for topic, future in admin.delete_topics(arguments.topics).items():
        try:
            access_of(arguments).result_of(future)
        except ClusterError as error:
            print(f"klamm topic: {topic}: {error}{_next_step(error)}", file=sys.stderr)
            status = 1
        else:
            say(arguments, f"deleted topic {topic}")
    return status
