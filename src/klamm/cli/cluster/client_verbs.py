"""The verbs of `klamm cluster` that work with any Kafka cluster, as clients."""

from __future__ import annotations

import argparse
from typing import Final

from klamm.cli.cluster import (
    cluster_decommission,
    cluster_describe,
    cluster_elect,
    cluster_reassign,
    cluster_rebalance,
)
from klamm.cli.cluster_options import add_cluster_options
from klamm.cli.output import add_output_option

__all__ = ["CLIENT_VERBS", "add_client_verbs"]

CLIENT_VERBS: Final = {
    "describe": (cluster_describe, "show brokers, and the partitions that need attention"),
    "elect": (cluster_elect, "elect the preferred leaders of partitions, or any replica that is left"),
    "reassign": (cluster_reassign, "move partitions to other brokers, or change the number of their replicas"),
    "decommission": (cluster_decommission, "move all replicas of a broker to others, so that it can leave"),
    "rebalance": (cluster_rebalance, "spread replicas, bytes and leaders evenly over racks and brokers"),
}


def add_client_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the parsers of the verbs."""
    for name, (module, summary) in CLIENT_VERBS.items():
        parser = verbs.add_parser(name, help=summary)
        module.configure(parser)
        add_cluster_options(parser)
        add_output_option(parser)
