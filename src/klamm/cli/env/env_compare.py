"""`klamm env compare`: shows the progress of the same group in each environment."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from klamm.cli.cluster_options import access_of
from klamm.cli.context.context_file import ContextFileError, ContextFiles, context_paths
from klamm.cli.context.target import gave_only_an_address
from klamm.cli.errors import UsageError
from klamm.cli.output import new_console, show_rows
from klamm.errors import KlammError
from klamm.insight.errors import ClusterError
from klamm.insight.group.environment_progress import (
    EnvironmentGroup,
    EnvironmentProgress,
    behind,
    environments_in,
    has_peers,
    look_at,
    partitions_of,
    total_behind,
)
from klamm.insight.words import count, lag_words, moment, span

__all__ = ["COLUMNS", "compare"]

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
_MOST_SIDE_BY_SIDE: Final = 3


def compare(arguments: argparse.Namespace) -> int:
    """Shows all environments side by side.

    Returns 1 if an environment's cluster can't be read, and shows the others. Raises KlammError if there is no
    environment.
    """
    progress: list[EnvironmentProgress] = []
    problems: list[str] = []
    try:
        for place in _places(arguments):
            try:
                progress.append(look_at(place))
            except KlammError as error:
                problems.append(str(error))
                print(f"klamm env: {place.label}: {error}", file=sys.stderr)
    except ClusterError as error:  # the chosen cluster does not tell its groups
        if not progress:
            raise
        if str(error) not in problems:  # a context has the same cluster
            print(f"klamm env: {error}", file=sys.stderr)
        problems.append(str(error))
    status = 1 if problems else 0
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


def _places(arguments: argparse.Namespace) -> Iterator[EnvironmentGroup]:
    """Yields the contexts' environments, then those found as prefixes of group ids on the chosen cluster.

    If the user gave only an address, yields only the environments of that cluster.
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
            yield EnvironmentGroup(
                (context.environment if is_only_one else None) or context.name, group, access_of(here)
            )
    for environment, group in environments_in(_groups(arguments), name).items():
        if (arguments.bootstrap_server, group) not in known:
            yield EnvironmentGroup(environment, group, access_of(arguments))


def _groups(arguments: argparse.Namespace) -> list[str]:
    """Returns all groups of the chosen cluster; none if the default address was chosen and no broker answers."""
    try:
        access = access_of(arguments)
        admin = access.admin_client()  # must live while its future is pending
        listing = access.result_of(admin.list_consumer_groups())
        return [group.group_id for group in listing.valid or ()]
    except ClusterError:
        if arguments.chosen_by == "the default":
            return []
        raise


def _rows(progress: Sequence[EnvironmentProgress]) -> Iterator[dict[str, Any]]:
    for key in partitions_of(progress):
        for each in progress:
            start_and_end = each.ends.get(key)
            yield {
                "topic": key[0],
                "partition": key[1],
                "environment": each.place.label,
                "group": each.place.group,
                "bootstrap_server": each.place.access.bootstrap_servers,
                "committed": each.committed.get(key),
                "high_watermark": start_and_end[1] if start_and_end is not None else None,
                "lag": each.lag(key),
                "behind": behind(progress, each, key),
                "last_commit": _iso(each.commit_ms.get(key)),
            }


def _iso(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="milliseconds")


def _show_table(arguments: argparse.Namespace, progress: Sequence[EnvironmentProgress]) -> None:
    from rich.table import Table

    if len(progress) > _MOST_SIDE_BY_SIDE:
        show_rows(arguments, ("topic", "partition", "environment", "committed", "lag", "behind"), list(_rows(progress)))
    else:
        _show_side_by_side(progress)
    now_ms = time.time_ns() // 1_000_000
    summary = Table.grid(padding=(0, 2))
    for each in progress:
        summary.add_row(each.place.label, each.place.group, _summary(progress, each, now_ms))
    new_console().print(summary)


def _show_side_by_side(progress: Sequence[EnvironmentProgress]) -> None:
    """Prints a line for each partition, with columns for each environment: the commit, the lag, the distance."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TOPIC", overflow="fold")
    table.add_column("PARTITION", justify="right")
    are_compared = [has_peers(progress, each) for each in progress]
    for each, is_compared in zip(progress, are_compared, strict=True):
        for heading in (each.place.label, "LAG", *(["BEHIND"] if is_compared else [])):
            table.add_column(Text(heading), justify="right")
    for key in partitions_of(progress):
        cells = [key[0], str(key[1])]
        for each, is_compared in zip(progress, are_compared, strict=True):
            numbers = (each.committed.get(key), each.lag(key), *([behind(progress, each, key)] if is_compared else []))
            cells += ["none" if number is None else f"{number}" for number in numbers]
        table.add_row(*cells)
    if table.row_count:
        new_console().print(table)
        print()


def _summary(progress: Sequence[EnvironmentProgress], one: EnvironmentProgress, now_ms: int) -> str:
    if not one.committed:
        return "has committed nothing"
    unavailable = len(one.committed.keys() - one.ends.keys())
    parts = [lag_words(map(one.lag, partitions_of(progress)), unavailable)]
    distance = total_behind(progress, one)
    if distance:
        parts.append(f"{count(distance, 'record')} behind")
    last_ms = one.last_commit_ms
    if last_ms is not None:
        parts.append(f"last commit {moment(last_ms)}, {span(now_ms - last_ms)} ago")
    if len({each.cluster_id for each in progress}) > 1:
        parts.append(f"on {one.place.access.bootstrap_servers}")
    return ", ".join(parts)
