"""The common parts of all client commands: the options that name a cluster, and the errors if it can't be reached."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from klamm.cli.arguments import key_value
from klamm.cli.context.target import BOOTSTRAP_VARIABLE, CONTEXT_VARIABLE, DEFAULT_BOOTSTRAP_SERVER
from klamm.cli.errors import UsageError
from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess
from klamm.insight.errors import ClusterError

__all__ = ["access_of", "add_cluster_options", "partitions_of"]


def add_cluster_options(
    parser: argparse.ArgumentParser, *, names_groups: bool = False, takes_properties: bool = True
) -> None:
    """Adds -b, --context and -X, which every client command has, and --full-id for commands that take group ids.

    A command that asks no cluster takes no properties: its -b and --context choose the environment only.
    Before the command runs, `main` calls `klamm.cli.context.target.settle`, which fills in missing values.
    """
    parser.set_defaults(reaches_cluster=True)
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT[,...]",
        help=f"where the cluster is (${BOOTSTRAP_VARIABLE}, else the context's, else {DEFAULT_BOOTSTRAP_SERVER})",
    )
    parser.add_argument(
        "--context",
        metavar="NAME",
        help=f"a context of `klamm context` (${CONTEXT_VARIABLE}, else the current one)",
    )
    if names_groups:
        parser.add_argument(
            "--full-id", action="store_true", help="take group ids as they are: put no environment before them"
        )
    if not takes_properties:
        parser.set_defaults(properties=[])
        return
    parser.add_argument(
        "-X",
        action="append",
        type=key_value,
        default=[],
        dest="properties",
        metavar="KEY=VALUE",
        help="one of librdkafka's configuration properties; may be repeated",
    )


def access_of(arguments: argparse.Namespace) -> ClusterAccess:
    """Returns the access to the cluster that the options name."""
    return CommandLineAccess(arguments.bootstrap_server, arguments.properties, arguments.context)


class CommandLineAccess(ClusterAccess):
    """Access to a cluster. Its errors name the options that help."""

    def __init__(self, bootstrap_servers: str, properties: Iterable[tuple[str, str]], context: str | None) -> None:
        super().__init__(bootstrap_servers, properties)
        self._context = context

    def unreachable(self, reason: str) -> ClusterError:
        where = f" (context {self._context})" if self._context is not None else ""
        return ClusterError(
            f"no answer from {self.bootstrap_servers}{where}: {reason.rstrip('?')}. Is a broker running there? "
            f"`klamm serve` starts one; -b HOST:PORT or {BOOTSTRAP_VARIABLE} names another."
        )

    def invalid_property(self, reason: str) -> UsageError:
        return UsageError(f"-X: {reason}")


def partitions_of(arguments: argparse.Namespace, client: AdminClient | Consumer, topic: str) -> list[int]:
    """Returns the indexes of a topic's partitions. Raises ClusterError if the topic does not exist."""
    # A metadata request for one topic may create it; a request for all topics doesn't.
    topics = access_of(arguments).translate(lambda: client.list_topics(timeout=TIMEOUT_S)).topics
    if topic not in topics:
        raise ClusterError(f"there is no topic {topic}; `klamm topic list --all` shows the topics")
    error = topics[topic].error
    if error is not None:
        raise ClusterError(f"topic {topic}: {error.str()}")
    return sorted(topics[topic].partitions)
