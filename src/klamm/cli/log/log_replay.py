"""`klamm log replay`: shows a group coordinator's log record by record, with the group's state after each record."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Message

from klamm.cli.cluster_options import access_of
from klamm.cli.log.replay_view import group_lines, record_words
from klamm.cli.output import show_rows
from klamm.core.coordinator.java_hash import partition_for
from klamm.insight.errors import ClusterError
from klamm.insight.group.coordinator_state import CoordinatorState, ReplayedRecord
from klamm.insight.group.member_names import MemberNames
from klamm.insight.group.replayed_group import ReplayedGroup
from klamm.insight.plain_message import plain
from klamm.insight.topic.partition_records import PartitionReader
from klamm.insight.topic.topic_directory import TopicDirectory
from klamm.insight.words import count, moment
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC

__all__ = ["replay"]

_GROUP_COLUMNS: Final = ("group", "type", "epoch", "members", "offsets")


def replay(arguments: argparse.Namespace) -> int:
    """Prints the records until the partition's end or --to.

    Raises ClusterError if the partition does not exist.
    """
    access = access_of(arguments)
    reader = PartitionReader(access)
    try:
        _check(arguments, reader.partition_count(OFFSETS_TOPIC))
        state = CoordinatorState(TopicDirectory(access).name_of)
        summary = _Summary()
        show = _Json() if arguments.json else _Text()
        for message in _until(arguments, reader.read(OFFSETS_TOPIC, arguments.partition)):
            key, timestamp_ms, offset = bytes(message.key() or b""), message.timestamp()[1], message.offset() or 0
            record = state.apply(key, _value(message), timestamp_ms, offset)
            if arguments.group is None or record.group_id == arguments.group:
                summary.add(message, record)
                show.record(message, record, state.group(record.group_id or ""))
        wanted = sorted(state.group_ids()) if arguments.group is None else [arguments.group]
        groups = [group for group in map(state.group, wanted) if group is not None]
        show.summary(arguments, summary, groups)
    finally:
        reader.close()
    return 0


def _check(arguments: argparse.Namespace, partitions: int | None) -> None:
    if partitions is None:
        raise ClusterError(f"there is no topic {OFFSETS_TOPIC} yet: it is made when the first group comes")
    if arguments.partition >= partitions:
        raise ClusterError(f"topic {OFFSETS_TOPIC} has no partition {arguments.partition}, only 0 to {partitions - 1}")
    if arguments.group is not None:
        right = partition_for(arguments.group, partitions)
        if right != arguments.partition:
            raise ClusterError(
                f"group {arguments.group} is in {OFFSETS_TOPIC}-{right}, not in {OFFSETS_TOPIC}-{arguments.partition}"
            )


def _until(arguments: argparse.Namespace, messages: Iterator[Message | None]) -> Iterator[Message]:
    for message in messages:
        if message is None or (arguments.to is not None and (message.offset() or 0) > arguments.to):
            return
        yield message
        if message.offset() == arguments.to:
            return


def _value(message: Message) -> bytes | None:
    value = message.value()
    return bytes(value) if value is not None else None


class _Summary:
    """Counts of the records that were read."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.records: Counter[str] = Counter()
        self.tombstones: Counter[str] = Counter()
        self.not_understood = 0

    def add(self, message: Message, record: ReplayedRecord) -> None:
        """Counts one record."""
        offset = message.offset() or 0
        self.first = offset if self.first is None else self.first
        self.last = offset
        if record.name is None:
            self.not_understood += 1
            return
        self.records[record.name] += 1
        if record.value is None:
            self.tombstones[record.name] += 1


class _Json:
    """Prints one JSON object a line."""

    def record(self, message: Message, record: ReplayedRecord, group: ReplayedGroup | None) -> None:
        """Prints the record, and its group's state after it."""
        value = message.value()
        shown = {
            "offset": message.offset(),
            "timestamp_ms": message.timestamp()[1],
            "type": record.type,
            "name": record.name,
            "group": record.group_id,
            "key": plain(record.key) if record.key is not None else None,
            "version": int.from_bytes(bytes(value[:2]), "big") if value else None,
            "value": plain(record.value) if record.value is not None else None,
            "complaint": record.complaint,
            "state": group.plain() if group is not None else None,
        }
        print(json.dumps(shown))

    def summary(self, arguments: argparse.Namespace, summary: _Summary, groups: list[ReplayedGroup]) -> None:
        """Prints the counts, and all groups at the end."""
        counts = {
            "first_offset": summary.first,
            "last_offset": summary.last,
            "records": dict(sorted(summary.records.items())),
            "tombstones": dict(sorted(summary.tombstones.items())),
            "not_understood": summary.not_understood,
            "groups": [group.plain() for group in groups],
        }
        print(json.dumps({"summary": counts}))


class _Text:
    """Prints blocks of lines, wrapped to the terminal's width."""

    def __init__(self) -> None:
        self._names = MemberNames()
        self._width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0

    def record(self, message: Message, record: ReplayedRecord, group: ReplayedGroup | None) -> None:
        """Prints the record, and its group's state after it."""
        for member in group.members.values() if group is not None else ():
            self._names.add(member.member_id, member.instance_id, member.client_id)
        when = moment(message.timestamp()[1], with_milliseconds=True)
        about = f"group {record.group_id}" if record.group_id is not None else ""
        print(f"{message.offset()}  {when}  {record.name or f'type {record.type}'}  {about}".rstrip())
        self._print("    ", record_words(record, group, self._names))
        if record.group_id is not None:
            for number, line in enumerate(group_lines(group, self._names)):
                self._print("  = " if number == 0 else "      ", line)

    def summary(self, arguments: argparse.Namespace, summary: _Summary, groups: list[ReplayedGroup]) -> None:
        """Prints the counts, and all groups at the end."""
        place = f"{OFFSETS_TOPIC}-{arguments.partition}"
        total = sum(summary.records.values()) + summary.not_understood
        if not total:
            print(f"{place} has no records" + (f" of group {arguments.group}" if arguments.group else ""))
            return
        print(f"\n{count(total, 'record')} of {place} at offsets {summary.first:,} to {summary.last:,}")
        for name, number in summary.records.most_common():
            gone = summary.tombstones[name]
            print(f"  {number:,} {name}" + (f", {count(gone, 'tombstone')} among them" if gone else ""))
        if summary.not_understood:
            print(f"  {summary.not_understood:,} not understood")
        print()
        self._groups(groups)

    def _groups(self, groups: list[ReplayedGroup]) -> None:
        rows = [
            {
                "group": group.group_id,
                "type": group.kind,
                "epoch": group.epoch,
                "members": len(group.members),
                "offsets": len(group.offsets),
            }
            for group in groups
        ]
        show_rows(argparse.Namespace(output="table"), _GROUP_COLUMNS, rows)

    def _print(self, indent: str, line: str) -> None:
        if self._width <= len(indent) + len(line) and self._width:
            line = textwrap.fill(
                line,
                self._width,
                initial_indent=indent,
                subsequent_indent=" " * (len(indent) + 2),
                break_on_hyphens=False,
            )
            print(line)
        else:
            print(indent + line)
