"""`klamm cluster start`: starts the members that do not run, and waits until the cluster serves."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final

from klamm.cli.cluster.cluster_record import (
    HOST,
    ClusterProblem,
    ClusterRecord,
    Member,
    locked,
    read_record,
    write_record,
)
from klamm.cli.cluster.free_ports import free_ports
from klamm.cli.cluster.member_start import MemberStart
from klamm.cli.cluster.replication_settings import default_replication_factor
from klamm.cli.errors import UsageError
from klamm.insight.words import count, enumeration

__all__ = ["choose_members", "run"]

_DEFAULT_BROKERS: Final = 3


def run(arguments: argparse.Namespace) -> int:
    """Starts what does not run, prints the addresses, and leaves the members running. Returns 0.

    If a member can't be started, or the command is interrupted, what it has started is stopped again. Raises UsageError
    for options that contradict the cluster, ClusterProblem, OSError.
    """
    directory: Path = arguments.data_dir.absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # like the data directories of brokers
    with locked(directory):
        known = read_record(directory)
        record = choose_members(known, arguments.brokers, arguments.replication_factor, free_ports(HOST))
        start = MemberStart(directory, record, arguments.timeout / timedelta(seconds=1))
        try:
            started = start.start_missing()
        except BaseException:
            # The first reason is what the user needs to know, not that a member could not be stopped.
            with contextlib.suppress(ClusterProblem, OSError):
                start.undo(_warn)
                write_record(directory, known)
            raise
    names = enumeration(started)
    what = f"the cluster of {count(len(record.brokers), 'broker')} in {directory}"
    print(f"{what}: started {names}" if started else f"{what} runs already")
    print(f"bootstrap.servers={record.bootstrap_servers}")
    print(f"export KLAMM_BOOTSTRAP_SERVER={record.bootstrap_servers}")
    print(f"`klamm cluster stop --data-dir {shlex.quote(str(arguments.data_dir))}` stops it")
    return 0


def choose_members(
    known: ClusterRecord | None, brokers: int | None, replication_factor: int | None, ports: Iterable[int]
) -> ClusterRecord:
    """Returns the members of a new cluster, or those of a known one, which may get more brokers.

    New members get the first of `ports` that no known member has.

    Raises UsageError for a smaller number of brokers, more replicas than brokers, and another replication factor while
    brokers run.
    """
    number = brokers or (_DEFAULT_BROKERS if known is None else len(known.brokers))
    if known is not None and number < len(known.brokers):
        raise UsageError(
            f"--brokers {number}: the cluster has {len(known.brokers)}, and a broker with partitions can't go away; "
            "--data-dir DIR starts another cluster"
        )
    replicas = replication_factor or (default_replication_factor(number) if known is None else known.replication_factor)
    if replicas > number:
        raise UsageError(f"--replication-factor {replicas}: each replica needs a broker, and there are {number}")
    if (
        known is not None
        and replicas != known.replication_factor
        and any(broker.is_running for broker in known.brokers)
    ):
        raise UsageError(
            f"--replication-factor {replicas}: the brokers run with {known.replication_factor}; "
            "`klamm cluster stop` stops them"
        )
    taken = () if known is None else (known.etcd.port, known.etcd.peer_port, *(each.port for each in known.brokers))
    unused = (port for port in ports if port not in taken)
    etcd = Member.etcd(next(unused), next(unused)) if known is None else known.etcd
    old = () if known is None else known.brokers
    new = tuple(Member.broker(broker_id, next(unused)) for broker_id in range(len(old) + 1, number + 1))
    return ClusterRecord(replicas, etcd, (*old, *new))


def _warn(text: str) -> None:
    print(f"klamm cluster: {text}", file=sys.stderr)
