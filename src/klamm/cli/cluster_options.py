"""What every client command shares: how a cluster is reached, and what to say when it can't be.

All of it goes through confluent-kafka, so that the commands work against any Kafka cluster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from klamm.cli.arguments import key_value
from klamm.cli.errors import ClusterError, UsageError
from klamm.cli.target import BOOTSTRAP_VARIABLE, CONTEXT_VARIABLE, DEFAULT_BOOTSTRAP_SERVER
from klamm.protocol.errors import ErrorCode

__all__ = [
    "TIMEOUT_S",
    "add_cluster_options",
    "admin_client",
    "cluster_error",
    "connect",
    "partitions_of",
    "result_of",
    "translate",
]

T = TypeVar("T")
C = TypeVar("C", AdminClient, Consumer, Producer)

TIMEOUT_S: Final = 10.0
# How long to wait each time before looking at what went wrong meanwhile: in all, TIMEOUT_S.
WAITS_S: Final = (0.5, 0.5, 1.0, 2.0, 6.0)
# All brokers may look down for a moment: a name with two addresses is tried at one after the other.
PATIENCE_WITH_DEAD_BROKERS_S: Final = 2.0

UNREACHABLE: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
HOPELESS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
NOT_UNDERSTOOD: Final = frozenset({KafkaError._INVALID_ARG, KafkaError._NOT_IMPLEMENTED})


def add_cluster_options(parser: argparse.ArgumentParser, *, names_groups: bool = False) -> None:
    """Adds -b, --context and -X, which every client command has, and --full-id where group ids are given.

    `main` lets `klamm.cli.target` settle what they leave open before the command runs.
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
    parser.add_argument(
        "-X",
        action="append",
        type=key_value,
        default=[],
        dest="properties",
        metavar="KEY=VALUE",
        help="one of librdkafka's configuration properties; may be repeated",
    )


def connect(arguments: argparse.Namespace, new_client: Callable[[dict[str, Any]], C], **settings: Any) -> C:
    """A client of librdkafka's that has heard from the cluster: `settings`, then what the user gave with -X.

    Raises ClusterError where no broker answers, UsageError for properties that librdkafka doesn't take.
    """
    errors: list[KafkaError] = []
    config: dict[str, Any] = {
        "bootstrap.servers": arguments.bootstrap_server,
        "client.id": "klamm",
        "log_level": 2,  # what goes wrong is said once, by the command itself
        "socket.timeout.ms": int(TIMEOUT_S * 1000),
        "error_cb": errors.append,
        **settings,
        **dict(arguments.properties),
    }
    try:
        client = new_client(config)
    except KafkaException as error:
        if error.args[0].code() in NOT_UNDERSTOOD:
            raise UsageError(f"-X: {error.args[0].str()}") from None
        raise cluster_error(arguments, error.args[0]) from None
    _wait_for_an_answer(arguments, client, errors)
    return client


def admin_client(arguments: argparse.Namespace) -> AdminClient:
    """A client for the cluster's administration. Raises as `connect` does."""
    return connect(arguments, AdminClient)


def _wait_for_an_answer(
    arguments: argparse.Namespace, client: AdminClient | Consumer | Producer, errors: list[KafkaError]
) -> None:
    """Returns when a broker has answered; gives up early when each one refuses."""
    began_s = time.monotonic()
    for wait_s in WAITS_S:
        try:
            client.list_topics(timeout=wait_s)
            return
        except KafkaException as exception:
            error = exception.args[0]
        client.poll(0)  # brings the errors
        for known in errors:
            if known.code() in HOPELESS:
                raise cluster_error(arguments, known)
        are_down = any(known.code() == KafkaError._ALL_BROKERS_DOWN for known in errors)
        if are_down and time.monotonic() - began_s >= PATIENCE_WITH_DEAD_BROKERS_S:
            break
    raise cluster_error(arguments, error)


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
    try:
        return translate(arguments, lambda: future.result(TIMEOUT_S + 5))
    except TimeoutError:
        raise cluster_error(arguments, KafkaError(KafkaError._TIMED_OUT)) from None


def partitions_of(arguments: argparse.Namespace, client: AdminClient | Consumer, topic: str) -> list[int]:
    """The indexes of a topic's partitions. Raises ClusterError where there is no such topic."""
    # Asking for one topic by its name may create it; asking for all of them doesn't.
    topics = translate(arguments, lambda: client.list_topics(timeout=TIMEOUT_S)).topics
    if topic not in topics:
        raise ClusterError(f"there is no topic {topic}; `klamm topic list --all` shows those there are")
    error = topics[topic].error
    if error is not None:
        raise ClusterError(f"topic {topic}: {error.str()}")
    return sorted(topics[topic].partitions)


def cluster_error(arguments: argparse.Namespace, error: KafkaError) -> ClusterError:
    """What to tell a person about an error of librdkafka's."""
    if error.code() in UNREACHABLE:
        where = f" (context {arguments.context})" if arguments.context is not None else ""
        return ClusterError(
            f"no answer from {arguments.bootstrap_server}{where}: {error.str()}. Is a broker running there? "
            f"`klamm serve` starts one; -b HOST:PORT or {BOOTSTRAP_VARIABLE} names another."
        )
    return ClusterError(f"{_name(error)}: {error.str()}")


def _name(error: KafkaError) -> str:
    """Kafka's name of an error code; librdkafka has some of its own, and names that begin with _ for its own errors."""
    try:
        return ErrorCode(error.code()).name.upper()
    except ValueError:
        return error.name().removeprefix("_")
