"""`klamm cluster stop`: stops the brokers, then etcd."""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta

from klamm.cli.cluster.cluster_record import existing_record, locked, write_record
from klamm.cli.cluster.member_end import end_members
from klamm.insight.words import enumeration

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Stops all members that run. Returns 0, also if none ran and if some had to be killed.

    Raises ClusterProblem, OSError.
    """
    directory = arguments.data_dir.absolute()
    existing_record(directory)  # its error for a folder that does not exist says what to do
    with locked(directory):
        record = existing_record(directory)
        running = [member.name for member in (*record.brokers, record.etcd) if member.is_running]
        # Brokers end their sessions in etcd, so etcd stops last.
        for members in (record.brokers, (record.etcd,)):
            end_members(members, arguments.timeout / timedelta(seconds=1), _warn)
            for member in members:
                record = record.with_process(member.name, None)
            write_record(directory, record)
    print(f"stopped {enumeration(running)}" if running else f"the cluster in {directory} does not run")
    return 0


def _warn(text: str) -> None:
    print(f"klamm cluster: {text}", file=sys.stderr)
