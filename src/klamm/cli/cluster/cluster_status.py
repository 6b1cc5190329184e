"""`klamm cluster status`: shows the members and whether their processes run."""

from __future__ import annotations

import argparse
from typing import Final

from klamm.cli.cluster.cluster_record import existing_record
from klamm.cli.output import say, show_rows

__all__ = ["COLUMNS", "run"]

COLUMNS: Final = ("member", "broker_id", "address", "pid", "state")


def run(arguments: argparse.Namespace) -> int:
    """Shows all members. Returns 0 if all of them run, else 1. Raises ClusterProblem, OSError."""
    record = existing_record(arguments.data_dir.absolute())
    rows = []
    for member in record.members:
        is_running = member.is_running
        rows.append(
            {
                "member": member.name,
                "broker_id": member.broker_id,
                "address": member.address,
                "pid": member.process.pid if is_running and member.process is not None else None,
                "state": "running" if is_running else "stopped",
            }
        )
    show_rows(arguments, COLUMNS, rows)
    if all(row["state"] == "running" for row in rows):
        return 0
    say(arguments, "`klamm cluster start` starts what does not run")
    return 1
