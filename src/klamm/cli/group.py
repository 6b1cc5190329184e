"""`klamm group`: list, describe, reset, delete."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from klamm.cli.connection import ClusterError, add_cluster_options, admin_client, result_of
from klamm.cli.group_offsets import ResetPlan, end_offsets, lag, plan_reset
from klamm.cli.output import add_output_option, say, show_rows
from klamm.errors import KlammError

__all__ = ["configure", "run"]

OFFSET_COLUMNS = (
    "topic",
    "partition",
    "committed",
    "log_start",
    "high_watermark",
    "lag",
    "member",
    "host",
    "client_id",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The subcommands of `klamm group`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    listing = verbs.add_parser("list", help="list groups and their states")

    describe = verbs.add_parser("describe", help="show a group's offsets, lag and owners")
    describe.add_argument("group")
    describe.add_argument("-m", "--members", action="store_true", help="show the members instead, standbys too")

    reset = verbs.add_parser("reset", help="move a group's offsets; shows what it would do unless --execute is given")
    reset.add_argument("group")
    reset.add_argument(
        "-t",
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:PARTITION,...]",
        help="default: every topic it has committed for",
    )
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the first record there is")
    where.add_argument("--to-latest", action="store_true", help="past the last record there is")
    where.add_argument(
        "--to-datetime", metavar="TIME", help="to the first record from that time on, e.g. 2026-01-31T12:00:00"
    )
    where.add_argument("--to-offset", type=int, metavar="OFFSET", help="to that offset, or the nearest there is")
    where.add_argument(
        "--by-duration", metavar="DURATION", help="to the first record of the last 90s, 15m, 36h, 7d or PT36H"
    )
    reset.add_argument("--execute", action="store_true", help="do it")

    delete = verbs.add_parser("delete", help="delete groups and their offsets")
    delete.add_argument("groups", nargs="+", metavar="group")

    for verb in (listing, describe, reset, delete):
        add_cluster_options(verb)
        add_output_option(verb)


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb.

    Raises KlammError when the cluster refuses.
    """
    verbs = {"list": _list, "describe": _describe, "reset": _reset, "delete": _delete}
    return verbs[arguments.verb](arguments)


def _list(arguments: argparse.Namespace) -> int:
    admin = admin_client(arguments)
    listing = result_of(arguments, admin.list_consumer_groups())
    for error in listing.errors:
        print(f"klamm: {error}", file=sys.stderr)
    rows = [
        {"group": group.group_id, "state": _state(group.state), "type": group.type.name.lower() if group.type else None}
        for group in sorted(listing.valid, key=lambda group: group.group_id)
    ]
    show_rows(arguments, ("group", "state", "type"), rows)
    return 1 if listing.errors else 0


def _describe(arguments: argparse.Namespace) -> int:
    admin = admin_client(arguments)
    description = _description(arguments, admin)
    if arguments.members:
        rows = [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": ", ".join(
                    f"{partition.topic}-{partition.partition}"
                    for partition in sorted(member.assignment.topic_partitions, key=lambda p: (p.topic, p.partition))
                ),
            }
            for member in description.members
        ]
        assignor = description.partition_assignor or "none"
        say(arguments, f"group {arguments.group}: {_state(description.state)}, assignor {assignor}")
        show_rows(arguments, ("member", "instance", "client_id", "host", "partitions"), rows)
        return 0
    owners = {
        (partition.topic, partition.partition): member
        for member in description.members
        for partition in member.assignment.topic_partitions
    }
    committed = _committed(arguments, admin)
    known = sorted(committed.keys() | owners.keys())
    ends = end_offsets(arguments, admin, known)
    rows = []
    for key in known:
        owner = owners.get(key)
        start, high_watermark = ends.get(key, (None, None))
        rows.append(
            {
                "topic": key[0],
                "partition": key[1],
                "committed": committed.get(key),
                "log_start": start,
                "high_watermark": high_watermark,
                "lag": lag(committed.get(key), start, high_watermark),
                "member": owner.member_id if owner else None,
                "host": owner.host if owner else None,
                "client_id": owner.client_id if owner else None,
            }
        )
    standbys = sum(1 for member in description.members if not member.assignment.topic_partitions)
    members = f"{len(description.members)} members, {standbys} of them standing by"
    say(arguments, f"group {arguments.group}: {_state(description.state)}, {members}")
    show_rows(arguments, OFFSET_COLUMNS, rows)
    return 0


def _reset(arguments: argparse.Namespace) -> int:
    admin = admin_client(arguments)
    description = _description(arguments, admin, may_be_unknown=True)
    if description is not None and description.members:
        raise ClusterError(
            f"group {arguments.group} has {len(description.members)} live members: stop them first, "
            "for they would overwrite the offsets"
        )
    plan = plan_reset(arguments, admin, _committed(arguments, admin))
    if not plan.changes:
        raise KlammError(f"group {arguments.group} has committed nothing: name the topics to reset with --topic")
    show_rows(arguments, ("topic", "partition", "from", "to"), plan.rows())
    if not arguments.execute:
        say(arguments, "nothing was changed: this is what --execute would do")
        return 0
    _execute(arguments, admin, plan)
    say(arguments, f"group {arguments.group}: {len(plan.changes)} offsets were set")
    return 0


def _execute(arguments: argparse.Namespace, admin: AdminClient, plan: ResetPlan) -> None:
    request = ConsumerGroupTopicPartitions(arguments.group, plan.topic_partitions())
    result = result_of(arguments, admin.alter_consumer_group_offsets([request])[arguments.group])
    for partition in result.topic_partitions:
        if partition.error is not None:
            raise ClusterError(f"{partition.topic}-{partition.partition}: {partition.error.str()}")


def _delete(arguments: argparse.Namespace) -> int:
    status = 0
    for group, future in admin_client(arguments).delete_consumer_groups(arguments.groups).items():
        try:
            result_of(arguments, future)
        except ClusterError as error:
            print(f"klamm: group {group}: {error}", file=sys.stderr)
            status = 1
        else:
            say(arguments, f"deleted group {group}")
    return status


def _description(
    arguments: argparse.Namespace, admin: AdminClient, *, may_be_unknown: bool = False
) -> ConsumerGroupDescription | Any:
    future = admin.describe_consumer_groups([arguments.group])[arguments.group]
    try:
        description = result_of(arguments, future)
    except ClusterError as error:
        if may_be_unknown and "GROUP_ID_NOT_FOUND" in str(error):
            return None
        raise
    if description.state == ConsumerGroupState.DEAD:
        if may_be_unknown:
            return None
        raise ClusterError(f"there is no group {arguments.group}; `klamm group list` shows those there are")
    return description


def _committed(arguments: argparse.Namespace, admin: AdminClient) -> dict[tuple[str, int], int]:
    """The group's committed offsets, of every partition that has one."""
    request = ConsumerGroupTopicPartitions(arguments.group)
    result = result_of(arguments, admin.list_consumer_group_offsets([request])[arguments.group])
    return {
        (partition.topic, partition.partition): partition.offset
        for partition in result.topic_partitions
        if partition.error is None and partition.offset >= 0
    }


def _state(state: Any) -> str:
    return state.name.lower().replace("_", "-") if state is not None else "unknown"
