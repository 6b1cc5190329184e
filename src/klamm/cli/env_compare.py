"""`klamm env compare`: how far the same group has come in each environment."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from klamm.cli.cluster_options import TIMEOUT_S, admin_client, result_of, translate
from klamm.cli.context_file import ContextFileError, ContextFiles, context_paths
from klamm.cli.coordinator_tail import CoordinatorTail
from klamm.cli.errors import ClusterError, UsageError
from klamm.cli.group_offsets import committed_offsets, end_offsets, lag
from klamm.cli.output import new_console, show_rows
from klamm.cli.target import gave_only_an_address
from klamm.cli.words import PartitionKey, count, lag_words, moment, span
from klamm.errors import KlammError

__all__ = ["COLUMNS", "Place", "Progress", "behind", "compare"]

COLUMNS: Final = (
    "topic",
    "partition",
    "environment",
    "group",
    "bootstrap_server",
    "committed",
    "high_watermark",
    "lag",
    "behind",
    "last_commit",
)
MOST_SIDE_BY_SIDE: Final = 3


@dataclass(frozen=True, slots=True)
class Place:
    """An environment's group, and how to reach its cluster."""

    label: str
    """The environment; the context's name where several contexts have that environment."""
    group: str
    arguments: argparse.Namespace = field(compare=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one environment's group has come."""

    place: Place
    cluster_id: str
    committed: Mapping[PartitionKey, int]
    ends: Mapping[PartitionKey, tuple[int, int]]
    commit_ms: Mapping[PartitionKey, int]
    """When it was committed, as far as the newest records of the coordinator's log tell."""

    def lag(self, key: PartitionKey) -> int | None:
        """Records that are still to be read; None without a commit."""
        start, end = self.ends.get(key, (None, None))
        return lag(self.committed.get(key), start, end)


def compare(arguments: argparse.Namespace) -> int:
    """Shows all environments side by side.

    Returns 1 where one of them can't be reached; the others are shown then. Raises KlammError where there is none.
    """
    progress: list[Progress] = []
    status = 0
    for place in _places(arguments):
        try:
            progress.append(_look(place))
        except KlammError as error:
            print(f"klamm env: {place.label}: {error}", file=sys.stderr)
            status = 1
    if not progress:
        if status:
            return status
        raise ClusterError(
            f"there is no environment: no context has one (`klamm context add NAME --environment NAME ...`), and "
            f"{arguments.bootstrap_server} has no group <environment>.{arguments.name}"
        )
    if arguments.output == "table":
        _show_table(arguments, progress)
    else:
        show_rows(arguments, COLUMNS, list(_rows(progress)))
    return status


def behind(progress: Sequence[Progress], one: Progress, key: PartitionKey) -> int | None:
    """How many records it is behind the foremost environment on its cluster; offsets of two clusters can't be
    compared."""
    if key not in one.committed:
        return None
    return (
        max(each.committed.get(key, 0) for each in progress if each.cluster_id == one.cluster_id) - one.committed[key]
    )


def _places(arguments: argparse.Namespace) -> Iterator[Place]:
    """The contexts' environments, then those that the group's ids on this cluster begin with.

    Whoever gave an address wants to know of that cluster only.
    """
    name: str = arguments.name
    known: set[tuple[str, str]] = set()
    if not gave_only_an_address(arguments):
        try:
            files = ContextFiles(context_paths(os.environ))
        except ContextFileError as error:
            raise UsageError(str(error)) from None
        head, _, rest = name.partition(".")
        if rest and head in files.environments:
            name = rest
        contexts = [each for each in files.contexts.values() if each.environment is not None]
        for context in contexts:
            is_only_one = sum(each.environment == context.environment for each in contexts) == 1
            here = argparse.Namespace(**vars(arguments))
            here.bootstrap_server, here.context = context.bootstrap_server, context.name
            here.properties = list(context.properties.items())
            group = f"{context.environment}.{name}"
            known.add((context.bootstrap_server, group))
            yield Place((context.environment if is_only_one else None) or context.name, group, here)
    for group in _groups(arguments):
        prefix = group.removesuffix(f".{name}")
        if prefix not in ("", group) and (arguments.bootstrap_server, group) not in known:
            yield Place(prefix, group, arguments)


def _groups(arguments: argparse.Namespace) -> list[str]:
    """All groups of the cluster that was chosen; none, if it was chosen by default and isn't there."""
    try:
        admin = admin_client(arguments)
        return sorted(group.group_id for group in result_of(arguments, admin.list_consumer_groups()).valid or ())
    except ClusterError:
        if arguments.chosen_by == "the default":
            return []
        raise


def _look(place: Place) -> Progress:
    arguments = place.arguments
    admin = admin_client(arguments)
    cluster_id = translate(arguments, lambda: admin.list_topics(timeout=TIMEOUT_S)).cluster_id
    committed = committed_offsets(arguments, admin, place.group)
    ends = end_offsets(arguments, admin, sorted(committed))
    tail = CoordinatorTail(arguments, place.group)
    try:
        replayed = tail.update()
    finally:
        tail.close()
    offsets = replayed.offsets if replayed is not None else {}
    commit_ms = {key: each.commit_ms for key, each in offsets.items() if committed.get(key) == each.offset}
    return Progress(place, str(cluster_id), committed, ends, commit_ms)


def _rows(progress: Sequence[Progress]) -> Iterator[dict[str, Any]]:
    for key in _keys(progress):
        for each in progress:
            start_and_end = each.ends.get(key)
            yield {
                "topic": key[0],
                "partition": key[1],
                "environment": each.place.label,
                "group": each.place.group,
                "bootstrap_server": each.place.arguments.bootstrap_server,
                "committed": each.committed.get(key),
                "high_watermark": start_and_end[1] if start_and_end is not None else None,
                "lag": each.lag(key),
                "behind": behind(progress, each, key),
                "last_commit": _iso(each.commit_ms.get(key)),
            }


def _keys(progress: Sequence[Progress]) -> list[PartitionKey]:
    return sorted(set().union(*(each.committed for each in progress)))


def _iso(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="milliseconds")


def _show_table(arguments: argparse.Namespace, progress: Sequence[Progress]) -> None:
    from rich.table import Table

    if len(progress) > MOST_SIDE_BY_SIDE:
        show_rows(arguments, ("topic", "partition", "environment", "committed", "lag", "behind"), list(_rows(progress)))
    else:
        _show_side_by_side(progress)
    now_ms = time.time_ns() // 1_000_000
    summary = Table.grid(padding=(0, 2))
    for each in progress:
        summary.add_row(each.place.label, each.place.group, _summary(progress, each, now_ms))
    new_console().print(summary)


def _show_side_by_side(progress: Sequence[Progress]) -> None:
    """A line for each partition, with some columns for each environment: its commit first, under its name."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TOPIC", overflow="fold")
    table.add_column("PARTITION", justify="right")
    has_peers = [sum(other.cluster_id == each.cluster_id for other in progress) > 1 for each in progress]
    for each, is_compared in zip(progress, has_peers, strict=True):
        for heading in (each.place.label, "LAG", *(["BEHIND"] if is_compared else [])):
            table.add_column(Text(heading), justify="right")
    for key in _keys(progress):
        cells = [key[0], str(key[1])]
        for each, is_compared in zip(progress, has_peers, strict=True):
            numbers = (each.committed.get(key), each.lag(key), *([behind(progress, each, key)] if is_compared else []))
            cells += ["none" if number is None else f"{number}" for number in numbers]
        table.add_row(*cells)
    if table.row_count:
        new_console().print(table)
        print()


def _summary(progress: Sequence[Progress], one: Progress, now_ms: int) -> str:
    if not one.committed:
        return "has committed nothing"
    parts = [lag_words(map(one.lag, _keys(progress)))]
    distance = sum(behind(progress, one, key) or 0 for key in one.committed)
    if distance:
        parts.append(f"{count(distance, 'record')} behind")
    if one.commit_ms:
        last_ms = max(one.commit_ms.values())
        parts.append(f"last commit {moment(last_ms)}, {span(now_ms - last_ms)} ago")
    if len({each.cluster_id for each in progress}) > 1:
        parts.append(f"on {one.place.arguments.bootstrap_server}")
    return ", ".join(parts)
