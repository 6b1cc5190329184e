"""`klamm cluster metadata`: what concerns the metadata store of a cluster as a whole."""

from __future__ import annotations

import argparse
import importlib
from typing import Final

from klamm.cli.cluster_options import add_cluster_options
from klamm.cli.output import add_output_option

__all__ = ["configure", "run"]

_MODULES: Final = {
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


def run(arguments: argparse.Namespace) -> int:
    """Runs one action. Raises KlammError, OSError."""
    return int(importlib.import_module(_MODULES[arguments.action]).run(arguments))
