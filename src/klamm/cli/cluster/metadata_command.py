"""`klamm cluster metadata`: what concerns the metadata store of a cluster as a whole."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Final

from klamm.cli.cluster_options import add_cluster_options
from klamm.cli.output import add_output_option

__all__ = ["configure", "run"]

_MODULES: Final = {
    "dump": "klamm.cli.cluster.metadata_dump",
    "restore": "klamm.cli.cluster.metadata_restore",
    "version": "klamm.cli.cluster.version_raise",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm cluster metadata`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    version = actions.add_parser("version", help="show the version of a running cluster's metadata, or raise it")
    version.add_argument(
        "--raise",
        dest="raises",
        action="store_true",
        help="raise it to the latest version; it can't be lowered again",
    )
    add_cluster_options(version)
    add_output_option(version)

    dump = actions.add_parser("dump", help="write all keys of a metadata store as JSON lines")
    dump.add_argument("file", metavar="FILE|-", help="a file that does not exist yet, or - for standard output")
    dump.add_argument("--metadata", metavar="URL", help="the store of a cluster: etcd://HOST:PORT/PREFIX")
    dump.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the data directory of a single broker that does not run"
    )
    restore = actions.add_parser("restore", help="write a dump to an unused prefix of etcd")
    restore.add_argument("file", metavar="FILE|-", help="what `dump` wrote, or - for standard input")
    restore.add_argument("--metadata", required=True, metavar="URL", help="an unused prefix: etcd://HOST:PORT/PREFIX")


def run(arguments: argparse.Namespace) -> int:
    """Runs one action. Raises KlammError, OSError."""
    return int(importlib.import_module(_MODULES[arguments.action]).run(arguments))
