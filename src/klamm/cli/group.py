"""`klamm group`: list, describe, reset, delete."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, MemberDescription

from klamm.cli.arguments import duration, timestamp_ms, topic_partitions
from klamm.cli.connection import add_cluster_options, admin_client, result_of
from klamm.cli.errors import ClusterError
from klamm.cli.group_offsets import ResetPlan, end_offsets, lag, plan_reset
from klamm.cli.output import add_output_option, say, show_rows

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
MEMBER_COLUMNS = ("member", "instance", "client_id", "host", "partitions")


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
        type=topic_partitions,
        default=[],
        metavar="TOPIC[:PARTITION,...]",
        help="default: every topic it has committed for",
    )
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the first record there is")
    where.add_argument("--to-latest", action="store_true", help="past the last record there is")
    where.add_argument(
        "--to-datetime",
        type=timestamp_ms,
        metavar="TIME",
        help="to the first record from that time on, e.g. 2026-01-31T12:00:00",
    )
    where.add_argument("--to-offset", type=int, metavar="OFFSET", help="to that offset, or the nearest there is")
    where.add_argument(
        "--by-duration",
        type=duration,
        metavar="DURATION",
        help="to the first record of the last 90s, 15m, 36h, 7d or PT36H",
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
        print(f"klamm group: {error}", file=sys.stderr)
    rows = [
        {"group": group.group_id, "state": _state(group.state), "type": group.type.name.lower() if group.type else None}
        for group in sorted(listing.valid, key=lambda group: group.group_id)
    ]
    show_rows(arguments, ("group", "state", "type"), rows)
    return 1 if listing.errors else 0


def _describe(arguments: argparse.Namespace) -> int:
    admin = admin_client(arguments)
    description = _description(arguments, admin)
    if description is None:
        raise ClusterError(f"there is no group {arguments.group}; `klamm group list` shows those there are")
    if arguments.members:
        assignor = description.partition_assignor or "none"
        say(arguments, f"group {arguments.group}: {_state(description.state)}, assignor {assignor}")
        show_rows(arguments, MEMBER_COLUMNS, _member_rows(description))
        return 0
    standbys = len(_standbys(description))
    members = _count(len(description.members), "member") + (f", {standbys} standing by" if standbys else "")
    rows = _offset_rows(arguments, admin, description)
    say(arguments, f"group {arguments.group}: {_state(description.state)}, {members}")
    show_rows(arguments, OFFSET_COLUMNS, rows)
    return 0


def _member_rows(description: ConsumerGroupDescription) -> list[dict[str, Any]]:
    return [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.host,
            "partitions": ", ".join(_partition_names(member)) or None,
        }
        for member in sorted(description.members, key=lambda member: str(member.member_id))
    ]


def _offset_rows(
    arguments: argparse.Namespace, admin: AdminClient, description: ConsumerGroupDescription
) -> list[dict[str, Any]]:
    """A row for each partition that has an owner or a commit, then one for each member that owns nothing."""
    owners = {
        (partition.topic, partition.partition): member
        for member in description.members
        for partition in member.assignment.topic_partitions
    }
    committed = _committed(arguments, admin)
    known = sorted(committed.keys() | owners.keys())
    ends = end_offsets(arguments, admin, known)
    rows: list[dict[str, Any]] = []
    for key in known:
        start, high_watermark = ends.get(key, (None, None))
        offsets = {
            "topic": key[0],
            "partition": key[1],
            "committed": committed.get(key),
            "log_start": start,
            "high_watermark": high_watermark,
            "lag": lag(committed.get(key), start, high_watermark),
        }
        rows.append(offsets | _owner(owners.get(key)))
    return rows + [_owner(member) for member in _standbys(description)]


def _owner(member: MemberDescription | None) -> dict[str, Any]:
    if member is None:
        return {}
    return {"member": member.member_id, "host": member.host, "client_id": member.client_id}


def _standbys(description: ConsumerGroupDescription) -> list[MemberDescription]:
    idle = [member for member in description.members if not member.assignment.topic_partitions]
    return sorted(idle, key=lambda member: str(member.member_id))


def _reset(arguments: argparse.Namespace) -> int:
    admin = admin_client(arguments)
    description = _description(arguments, admin)
    if description is not None and description.members:
        they, them = ("it", "it") if len(description.members) == 1 else ("they", "them")
        raise ClusterError(
            f"group {arguments.group} has {_count(len(description.members), 'live member')}: stop {them} first, "
            f"for {they} would overwrite the offsets"
        )
    plan = plan_reset(arguments, admin, _committed(arguments, admin))
    if not plan.changes:
        raise ClusterError(f"group {arguments.group} has committed nothing: name the topics to reset with --topic")
    show_rows(arguments, ("topic", "partition", "from", "to"), plan.rows())
    if not arguments.execute:
        say(arguments, "nothing was changed: this is what --execute would do")
        return 0
    _execute(arguments, admin, plan)
    say(arguments, f"group {arguments.group}: {_count(len(plan.changes), 'offset')} set")
    return 0


def _execute(arguments: argparse.Namespace, admin: AdminClient, plan: ResetPlan) -> None:
    request = ConsumerGroupTopicPartitions(arguments.group, plan.topic_partitions())
    result = result_of(arguments, admin.alter_consumer_group_offsets([request])[arguments.group])
    for partition in result.topic_partitions:
        if partition.error is not None:
            raise ClusterError(f"{partition.topic}-{partition.partition}: {partition.error.str()}")


def _delete(arguments: argparse.Namespace) -> int:
    status = 0
    admin = admin_client(arguments)
    for group, future in admin.delete_consumer_groups(arguments.groups).items():
        try:
            result_of(arguments, future)
        except ClusterError as error:
            print(f"klamm group: {group}: {error}", file=sys.stderr)
            status = 1
        else:
            say(arguments, f"deleted group {group}")
    return status


def _description(arguments: argparse.Namespace, admin: AdminClient) -> ConsumerGroupDescription | None:
    """The group as its coordinator knows it; None where there is no such group."""
    try:
        description = result_of(arguments, admin.describe_consumer_groups([arguments.group])[arguments.group])
    except ClusterError as error:
        if "GROUP_ID_NOT_FOUND" in str(error):
            return None
        raise
    return None if description.state == ConsumerGroupState.DEAD else description


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


def _partition_names(member: MemberDescription) -> list[str]:
    places = sorted((place.topic, place.partition) for place in member.assignment.topic_partitions)
    return [f"{topic}-{partition}" for topic, partition in places]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
