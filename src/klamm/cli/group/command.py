"""`klamm group`: list, describe, reset, delete. The verbs of `group_verbs` have their own modules."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from klamm.cli.arguments import duration, timestamp_ms, topic_partitions
from klamm.cli.cluster_options import access_of, add_cluster_options
from klamm.cli.group.group_reset import plan_reset
from klamm.cli.group.group_verbs import VERBS
from klamm.cli.output import add_output_option, say, show_rows
from klamm.insight.errors import ClusterError
from klamm.insight.group.group_offsets import check_has_no_members, commit_for, committed_offsets
from klamm.insight.group.group_picture import GroupPicture, MemberPicture
from klamm.insight.group.group_snapshot import GroupObserver, Snapshot
from klamm.insight.group.listed_states import listed_states
from klamm.insight.words import PartitionKey, count
from klamm.protocol.errors import ErrorCode

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
# For a group whose offsets a Spark query has committed.
_APPLICATION_COLUMNS = (*OFFSET_COLUMNS, "application")
MEMBER_COLUMNS = ("member", "instance", "client_id", "host", "protocol", "epoch", "partitions", "target")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm group`."""
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
        add_cluster_options(verb, names_groups=verb is not listing)
        add_output_option(verb)

    for name, further in VERBS.items():
        verb = verbs.add_parser(name, help=further.summary)
        further.configure(verb)
        add_cluster_options(verb, names_groups=not further.takes_full_ids)


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb.

    Raises KlammError if the cluster refuses a request.
    """
    if arguments.verb in VERBS:
        return int(importlib.import_module(VERBS[arguments.verb].module).run(arguments))
    verbs = {"list": _list, "describe": _describe, "reset": _reset, "delete": _delete}
    return verbs[arguments.verb](arguments)


def _list(arguments: argparse.Namespace) -> int:
    access = access_of(arguments)
    admin = access.admin_client()  # must live while its future is pending
    listing = access.result_of(admin.list_consumer_groups())
    for error in listing.errors:
        print(f"klamm group: {error}", file=sys.stderr)
    states = listed_states(access, listing.valid)
    rows = [
        {
            "group": group.group_id,
            "state": states[group.group_id],
            "type": group.type.name.lower() if group.type else None,
        }
        for group in sorted(listing.valid, key=lambda group: group.group_id)
    ]
    show_rows(arguments, ("group", "state", "type"), rows)
    return 1 if listing.errors else 0


def _describe(arguments: argparse.Namespace) -> int:
    with closing(GroupObserver(access_of(arguments), arguments.group)) as observer:
        snapshot = observer.look()
    if snapshot is None:
        raise ClusterError(f"there is no group {arguments.group}; `klamm group list` shows the groups")
    picture = snapshot.picture
    if arguments.members:
        say(arguments, f"group {arguments.group}: {', '.join(_facts(picture))}, assignor {picture.assignor or 'none'}")
        show_rows(arguments, MEMBER_COLUMNS, [_member_row(member) for member in picture.members])
        return 0
    parts = [*_facts(picture), count(len(picture.members), "member")]
    parts += [f"{len(picture.standbys)} standing by"] if picture.standbys else []
    parts += [snapshot.lag_in_words] if snapshot.lag_in_words is not None else []
    parts += [f"{snapshot.picture.members_needed} needed"] if snapshot.picture.members_needed is not None else []
    parts += [f"Spark application {each}" for each in sorted(set(snapshot.applications.values()))]
    say(arguments, f"group {arguments.group}: {', '.join(parts)}")
    columns = _APPLICATION_COLUMNS if snapshot.applications else OFFSET_COLUMNS
    show_rows(arguments, columns, _offset_rows(snapshot))
    return 0


def _member_row(member: MemberPicture) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "protocol": "classic" if member.uses_classic_protocol else "consumer",
        "epoch": member.epoch,
        "partitions": _listed(member.assigned),
        "target": _listed(member.target),
    }


def _listed(partitions: Iterable[PartitionKey]) -> str | None:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) or None


def _facts(picture: GroupPicture) -> list[str]:
    """Returns the state; for a consumer group also the epoch, and the assignment epoch if it differs."""
    if picture.epoch is None:
        return [picture.state]
    behind = f" (assignment {picture.assignment_epoch})" if picture.assignment_epoch != picture.epoch else ""
    return [picture.state, f"epoch {picture.epoch}{behind}"]


def _offset_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Returns a row for each partition of the group's topics, then one for each member without partitions."""
    owners = snapshot.picture.owners
    rows: list[dict[str, Any]] = []
    for key in snapshot.partitions:
        start, high_watermark = snapshot.ends.get(key, (None, None))
        offsets = {
            "topic": key[0],
            "partition": key[1],
            "committed": snapshot.committed.get(key),
            "log_start": start,
            "high_watermark": high_watermark,
            "lag": snapshot.lag(key),
            "application": snapshot.applications.get(key),
        }
        rows.append(offsets | (_owner(owners[key]) if key in owners else {}))
    return rows + [_owner(member) for member in snapshot.picture.members if not member.assigned]


def _owner(member: MemberPicture) -> dict[str, Any]:
    return {"member": member.member_id, "host": member.host, "client_id": member.client_id}


def _reset(arguments: argparse.Namespace) -> int:
    access = access_of(arguments)
    admin = access.admin_client()
    check_has_no_members(access, admin, arguments.group)
    plan = plan_reset(arguments, admin, committed_offsets(access, admin, arguments.group))
    if not plan.changes:
        raise ClusterError(f"group {arguments.group} has committed nothing: name the topics to reset with --topic")
    show_rows(arguments, ("topic", "partition", "from", "to"), plan.rows())
    if not arguments.execute:
        say(arguments, "nothing was changed: this is what --execute would do")
        return 0
    commit_for(access, admin, arguments.group, plan.topic_partitions())
    say(arguments, f"group {arguments.group}: {count(len(plan.changes), 'offset')} set")
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    status = 0
    access = access_of(arguments)
    admin = access.admin_client()
    for group, future in admin.delete_consumer_groups(arguments.groups).items():
        try:
            access.result_of(future)
        except ClusterError as error:
            print(f"klamm group: {group}: {error}{_next_step(group, error)}", file=sys.stderr)
            status = 1
        else:
            say(arguments, f"deleted group {group}")
    return status


def _next_step(group: str, error: ClusterError) -> str:
    """Returns what to do if a group can't be deleted for this reason."""
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        return f": stop its members first; `klamm group describe {group} --members` shows them"
    return "; `klamm group list` shows the groups" if error.code is ErrorCode.GROUP_ID_NOT_FOUND else ""
