"""`klamm env`: compare environments."""

from __future__ import annotations

import argparse

from klamm.cli.cluster_options import add_cluster_options
from klamm.cli.output import add_output_option

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm env`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    compare = verbs.add_parser("compare", help="show the progress of the same group in each environment")
    compare.add_argument("name", metavar="group", help="the group's id without an environment")
    add_cluster_options(compare)
    add_output_option(compare)


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb.

    Raises KlammError if there is no environment to compare.
    """
    from klamm.cli.env.env_compare import compare

    return compare(arguments)
