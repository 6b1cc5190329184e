"""`klamm txn`: list, describe, abort.

librdkafka's admin client has no API for transactions, so these commands use klamm's own client.
"""

from __future__ import annotations

import argparse
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any, Final

from klamm.cli.arguments import duration, topic_partitions
from klamm.cli.cluster_options import access_of, add_cluster_options
from klamm.cli.errors import UsageError
from klamm.cli.output import add_output_option, say, show_rows
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.transaction_listing import ProducerState, TransactionsClient
from klamm.insight.cluster_access import TIMEOUT_S
from klamm.insight.errors import ClusterError
from klamm.insight.hanging_transactions import coordinated_transaction, hanging_transactions
from klamm.insight.security_settings import security_settings
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.types import PartitionIndex, TopicPartition

__all__ = ["DESCRIBE_COLUMNS", "HANGING_COLUMNS", "LIST_COLUMNS", "configure", "run"]

LIST_COLUMNS: Final = ("transactional_id", "coordinator", "producer_id", "state")
HANGING_COLUMNS: Final = (
    "topic",
    "partition",
    "start_offset",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "idle_ms",
)
DESCRIBE_COLUMNS: Final = (
    "transactional_id",
    "producer_id",
    "producer_epoch",
    "state",
    "timeout_ms",
    "duration_ms",
    "topic",
    "partition",
)
_ABORT_COLUMNS: Final = (
    "topic",
    "partition",
    "start_offset",
    "producer_id",
    "producer_epoch",
    "transactional_id",
    "state",
)
_STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_LONGEST_TRANSACTION: Final = timedelta(minutes=15)
"""Kafka's default of `transaction.max.timeout.ms`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm txn`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    listing = verbs.add_parser("list", help="list transactional ids, or transactions that hang")
    listing.add_argument("-s", "--state", action="append", choices=_STATES, default=[], help="only in this state")
    listing.add_argument(
        "--producer-id", action="append", type=int, default=[], metavar="ID", help="only of this producer"
    )
    listing.add_argument("--pattern", metavar="REGEX", help="only ids that match as a whole (Kafka 4.1 and later)")
    listing.add_argument(
        "--longer-than",
        type=duration,
        metavar="DURATION",
        help="only those that are open for longer than 90s, 15m, ...",
    )
    listing.add_argument(
        "--hanging",
        action="store_true",
        help="instead: transactions that are open in a partition, and that no coordinator will end",
    )
    listing.add_argument(
        "-t",
        "--topic",
        action="append",
        type=topic_partitions,
        default=[],
        metavar="TOPIC[:PARTITION,...]",
        help="with --hanging: look here (default: everywhere)",
    )

    describe = verbs.add_parser("describe", help="show the transaction of a transactional id, and its partitions")
    describe.add_argument("transactional_id")

    abort = verbs.add_parser(
        "abort", help="abort a transaction that hangs, in one partition; shows which one unless --execute is given"
    )
    abort.add_argument("partition", type=one_partition, metavar="TOPIC:PARTITION")
    abort.add_argument("start_offset", type=int, metavar="OFFSET", help="where it begins, as list --hanging tells")

    abort.add_argument("--execute", action="store_true", help="do it")
    abort.add_argument(
        "--force",
        action="store_true",
        help="even if its coordinator knows it and will end it: what it wrote here is lost if it commits",
    )

    for verb in (listing, describe, abort):
        add_cluster_options(verb)
        add_output_option(verb)


def one_partition(text: str) -> TopicPartition:
    """Parses TOPIC:PARTITION."""
    topic, indexes = topic_partitions(text)
    if len(indexes) != 1:
        raise ArgumentTypeError(f"takes TOPIC:PARTITION, not {text!r}")
    return TopicPartition(topic, PartitionIndex(indexes[0]))


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb. Returns 1 if a search left out partitions. Raises KlammError if the cluster refuses a request."""
    verbs: dict[str, Callable[[argparse.Namespace, TransactionsClient], int]]
    verbs = {"list": _list, "describe": _describe, "abort": _abort}
    if arguments.verb == "list" and arguments.topic and not arguments.hanging:
        raise UsageError("--topic goes with --hanging: transactional ids belong to no topic")
    with closing(_client(arguments)) as client:
        return verbs[arguments.verb](arguments, client)


def _client(arguments: argparse.Namespace) -> TransactionsClient:
    timeout = str(int(TIMEOUT_S * 1000))
    config = ClientConfig.from_mapping(
        {
            "bootstrap.servers": arguments.bootstrap_server,
            "request.timeout.ms": timeout,
            "default.api.timeout.ms": timeout,
            **security_settings(dict(arguments.properties)),
        }
    )
    return TransactionsClient(Cluster(config))


def _list(arguments: argparse.Namespace, client: TransactionsClient) -> int:
    if arguments.hanging:
        return _list_hanging(arguments, client)
    longer_than = arguments.longer_than
    request = ListTransactionsRequest(
        # The coordinator counts a transaction that has not begun as very old. A filter by duration must leave it out.
        state_filters=arguments.state or (list(_OPEN_STATES) if longer_than is not None else []),
        producer_id_filters=arguments.producer_id,
        duration_filter=-1 if longer_than is None else _milliseconds(longer_than),
        transactional_id_pattern=arguments.pattern,
    )
    rows = [
        {
            "transactional_id": each.transactional_id,
            "coordinator": coordinator,
            "producer_id": each.producer_id,
            "state": each.transaction_state,
        }
        for coordinator, each in client.transactional_ids(request)
    ]
    show_rows(arguments, LIST_COLUMNS, sorted(rows, key=lambda row: str(row["transactional_id"])))
    return 0


def _list_hanging(arguments: argparse.Namespace, client: TransactionsClient) -> int:
    if arguments.state or arguments.producer_id or arguments.pattern:
        raise UsageError("--hanging looks at partitions: of the filters it takes --topic and --longer-than")
    now_ms = _now_ms()
    before_ms = now_ms - _milliseconds(arguments.longer_than or _LONGEST_TRANSACTION)
    partitions, leaderless = _partitions(arguments)
    for partition in leaderless:
        print(f"klamm txn: {partition} has no leader, so it was not searched", file=sys.stderr)
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "start_offset": each.producer.current_txn_start_offset,
            "producer_id": each.producer.producer_id,
            "producer_epoch": each.producer.producer_epoch,
            "coordinator_epoch": each.producer.coordinator_epoch,
            "idle_ms": now_ms - each.producer.last_timestamp,
        }
        for each in hanging_transactions(client, partitions, before_ms=before_ms)
    ]
    show_rows(arguments, HANGING_COLUMNS, rows)
    return 1 if leaderless else 0


def _partitions(arguments: argparse.Namespace) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Returns the partitions of --topic, or all partitions; those without a leader apart."""
    admin = access_of(arguments).admin_client()
    topics = access_of(arguments).translate(lambda: admin.list_topics(timeout=TIMEOUT_S)).topics
    partitions: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    for name, indexes in arguments.topic or [(name, ()) for name in sorted(topics)]:
        if name not in topics:
            raise ClusterError(f"there is no topic {name}")
        known = topics[name].partitions
        for index in indexes or sorted(known):
            if index not in known:
                raise ClusterError(f"topic {name} has no partition {index}")
            (partitions if known[index].leader >= 0 else leaderless).append(TopicPartition(name, PartitionIndex(index)))
    return partitions, leaderless


def _describe(arguments: argparse.Namespace, client: TransactionsClient) -> int:
    found = client.describe(arguments.transactional_id)
    if found is None:
        raise ClusterError(f"there is no transactional id {arguments.transactional_id!r}")
    is_open = found.transaction_state in _OPEN_STATES
    row: dict[str, Any] = {
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.transaction_state,
        "timeout_ms": found.transaction_timeout_ms,
        "duration_ms": _now_ms() - found.transaction_start_time_ms if is_open else None,
    }
    partitions = [(topic.topic, index) for topic in found.topics for index in topic.partitions]
    rows = [{**row, "topic": topic, "partition": index} for topic, index in sorted(partitions)]
    show_rows(arguments, DESCRIBE_COLUMNS, rows or [row])
    return 0


def _abort(arguments: argparse.Namespace, client: TransactionsClient) -> int:
    partition: TopicPartition = arguments.partition
    producer = _producer_at(client, partition, arguments.start_offset)
    found = coordinated_transaction(client, producer, partition)
    row = {
        "topic": partition.topic,
        "partition": partition.partition,
        "start_offset": producer.current_txn_start_offset,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "transactional_id": None if found is None else found.transactional_id,
        "state": "hanging" if found is None else found.transaction_state,
    }
    if found is not None and not arguments.force:
        raise ClusterError(
            f"the transaction does not hang: {found.transactional_id!r} is {found.transaction_state}, and its "
            f"coordinator will end it after {found.transaction_timeout_ms} ms at the latest. If it commits, what it "
            f"wrote to {partition} would be lost. Wait for it to end; --force aborts it here anyway"
        )
    show_rows(arguments, _ABORT_COLUMNS, [row])
    if not arguments.execute:
        say(arguments, "nothing was changed: --execute aborts this transaction in this partition")
        return 0
    client.abort(partition, producer)
    say(arguments, f"aborted the transaction of producer {producer.producer_id} on {partition}")
    return 0


def _producer_at(client: TransactionsClient, partition: TopicPartition, start_offset: int) -> ProducerState:
    """Returns the producer whose open transaction begins at `start_offset`. Raises ClusterError if there is none."""
    for producer in client.producers(partition):
        if producer.current_txn_start_offset == start_offset:
            return producer
    raise ClusterError(f"no transaction that is open on {partition} begins at offset {start_offset}")


def _milliseconds(length: timedelta) -> int:
    return round(length.total_seconds() * 1000)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
