"""`klamm cluster`: a cluster on this machine for trying one, the metadata of a cluster, verbs for any Kafka cluster."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Final

from klamm.cli.arguments import duration, natural_number
from klamm.cli.cluster import metadata_command
from klamm.cli.cluster.client_verbs import CLIENT_VERBS, add_client_verbs
from klamm.cli.cluster.cluster_record import ClusterProblem
from klamm.cli.output import add_output_option

__all__ = ["configure", "run"]

_MODULES: Final = {
    "start": "klamm.cli.cluster.cluster_start",
    "stop": "klamm.cli.cluster.cluster_stop",
    "status": "klamm.cli.cluster.cluster_status",
    "join": "klamm.cli.cluster.cluster_join",
    "metadata": "klamm.cli.cluster.metadata_command",
}
_DEFAULT_DIRECTORY: Final = "klamm-cluster"
_DEFAULT_START_TIMEOUT: Final = "60s"
_DEFAULT_STOP_TIMEOUT: Final = "30s"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm cluster`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    start = verbs.add_parser("start", help="start etcd and brokers on this machine, or those of them that do not run")
    start.add_argument(
        "--brokers", type=natural_number, metavar="N", help="how many (default: as many as there are, at first 3)"
    )
    start.add_argument(
        "--replication-factor",
        type=natural_number,
        metavar="N",
        help="how many replicas a new topic's partitions have (default: as before, at first 3 or one for each broker)",
    )
    stop = verbs.add_parser("stop", help="stop the brokers, then etcd")
    status = verbs.add_parser("status", help="show what runs; exit status 0 if all of it does")
    for verb, timeout in ((start, _DEFAULT_START_TIMEOUT), (stop, _DEFAULT_STOP_TIMEOUT)):
        verb.add_argument(
            "--timeout",
            type=duration,
            default=timeout,
            metavar="DURATION",
            help=f"how long to wait (default {timeout})",
        )
    for verb in (start, stop, status):
        verb.add_argument(
            "--data-dir",
            type=Path,
            default=Path(_DEFAULT_DIRECTORY),
            metavar="DIR",
            help=f"where data and logs of all members are (default ./{_DEFAULT_DIRECTORY})",
        )
    add_output_option(status)
    status.add_argument("--json", action="store_const", dest="output", const="json", help="the same as -o json")
    join = verbs.add_parser("join", help="make a single broker that does not run the first broker of a cluster")
    join.add_argument("--data-dir", type=Path, required=True, metavar="DIR", help="the data directory of the broker")
    join.add_argument("--metadata", required=True, metavar="URL", help="an unused prefix: etcd://HOST:PORT/PREFIX")
    metadata_command.configure(
        verbs.add_parser("metadata", help="show or raise the version of the metadata, dump and restore them")
    )

    add_client_verbs(verbs)


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb. Raises KlammError if a member can't be started or stopped, or a file can't be used."""
    if arguments.verb in CLIENT_VERBS:
        return int(CLIENT_VERBS[arguments.verb][0].run(arguments))
    try:
        return int(importlib.import_module(_MODULES[arguments.verb]).run(arguments))
    except BrokenPipeError:
        raise  # `main` handles a closed output pipe
    except OSError as error:
        where = error.filename or getattr(arguments, "data_dir", None)
        raise ClusterProblem(f"{where}: {error.strerror or error}" if where else str(error)) from error
