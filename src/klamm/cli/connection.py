"""What every client command shares: how a cluster is reached, and what to say when it can't be.

All of it goes through confluent-kafka, so that the commands work against any Kafka cluster.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from klamm.errors import KlammError

__all__ = [
    "ClusterError",
    "add_cluster_options",
    "admin_client",
    "client_config",
    "partitions_of",
    "result_of",
    "translate",
]

T = TypeVar("T")

DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "KLAMM_BOOTSTRAP_SERVER"
TIMEOUT_S: Final = 10.0

UNREACHABLE: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)


class ClusterError(KlammError):
    """The cluster refused, or could not be reached."""


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Adds -b and -X, which every client command has."""
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        default=os.environ.get(BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP_SERVER),
        metavar="HOST:PORT[,...]",
        help=f"where the cluster is (${BOOTSTRAP_VARIABLE}, else {DEFAULT_BOOTSTRAP_SERVER})",
    )
    parser.add_argument(
        "-X",
        action="append",
        default=[],
        dest="properties",
        metavar="KEY=VALUE",
        help="one of librdkafka's configuration properties; may be repeated",
    )


def client_config(arguments: argparse.Namespace, **settings: Any) -> dict[str, Any]:
    """Librdkafka's configuration for a command: its settings, then what the user gave with -X.

    Raises KlammError.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": arguments.bootstrap_server,
        "client.id": "klamm",
        "log_level": 2,  # what goes wrong is said once, by the command itself
        "socket.timeout.ms": int(TIMEOUT_S * 1000),
        **settings,
    }
    for item in arguments.properties:
        key, separator, value = item.partition("=")
        if not separator:
            raise KlammError(f"-X takes KEY=VALUE, not {item!r}")
        config[key] = value
    return config


def admin_client(arguments: argparse.Namespace) -> AdminClient:
    """A client for the cluster's administration.

    Raises KlammError for a property that librdkafka doesn't know.
    """
    return translate(arguments, lambda: AdminClient(client_config(arguments)))


def translate(arguments: argparse.Namespace, call: Callable[[], T]) -> T:
    """Calls, and turns librdkafka's exception into a ClusterError that says what to do next."""
    try:
        return call()
    except KafkaException as error:
        raise cluster_error(arguments, error.args[0]) from None


def result_of(arguments: argparse.Namespace, future: Future[T]) -> T:
    """The result of an asynchronous call.

    Raises ClusterError.
    """
    return translate(arguments, lambda: future.result(TIMEOUT_S + 5))


def partitions_of(arguments: argparse.Namespace, client: AdminClient | Consumer, topic: str) -> list[int]:
    """The indexes of a topic's partitions. Raises ClusterError where there is no such topic."""
    metadata = translate(arguments, lambda: client.list_topics(topic, timeout=TIMEOUT_S)).topics[topic]
    if metadata.error is not None:
        raise ClusterError(f"topic {topic}: {metadata.error.str()}")
    return sorted(metadata.partitions)


def cluster_error(arguments: argparse.Namespace, error: KafkaError) -> ClusterError:
    """What to tell a person about an error of librdkafka's."""
    if error.code() in UNREACHABLE:
        return ClusterError(
            f"no answer from {arguments.bootstrap_server}: {error.str()}. Is a broker running there? "
            f"`klamm serve` starts one; -b HOST:PORT or {BOOTSTRAP_VARIABLE} names another."
        )
    return ClusterError(f"{error.name().lstrip('_')}: {error.str()}")
