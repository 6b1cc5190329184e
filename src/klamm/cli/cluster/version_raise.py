"""`klamm cluster metadata version`: shows the version of a cluster's metadata, and raises it.

Clients see the version as the feature `klamm.metadata.version`. librdkafka's admin client has no API for features, so
this command uses klamm's own client.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Final

from klamm.cli.output import say, show_rows
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.feature_levels import BrokerFeature, broker_feature, upgrade_feature
from klamm.insight.cluster_access import TIMEOUT_S
from klamm.insight.errors import ClusterError
from klamm.insight.security_settings import security_settings

__all__ = ["COLUMNS", "run"]

COLUMNS: Final = ("broker_id", "version", "lowest", "highest")
_FEATURE: Final = "klamm.metadata.version"


def run(arguments: argparse.Namespace) -> int:
    """Shows what each broker reports. With --raise, raises the version first. Returns 0.

    Raises ClusterError for a cluster without such a version, and RequestRefused with the reason if a broker does not
    know the later version.
    """
    with closing(_cluster(arguments)) as cluster:
        reported = _reported(cluster)
        if arguments.raises:
            latest = max(reported, key=lambda each: each.highest)
            if all(each.finalized == latest.highest for each in reported):
                say(arguments, f"the metadata version is {latest.highest} already, the latest that the brokers know")
            else:
                upgrade_feature(cluster, latest.broker, _FEATURE, latest.highest)
                say(arguments, f"the metadata version is {latest.highest} now")
                reported = _reported(cluster)
        rows = [
            {
                "broker_id": each.broker,
                "version": each.finalized,
                "lowest": each.lowest,
                "highest": each.highest,
            }
            for each in reported
        ]
        show_rows(arguments, COLUMNS, rows)
        if not arguments.raises and any(each.finalized < each.highest for each in reported):
            say(
                arguments, "`klamm cluster metadata version --raise` raises it, when all brokers know the later version"
            )
    return 0


def _reported(cluster: Cluster) -> list[BrokerFeature]:
    reported = broker_feature(cluster, _FEATURE)
    if not reported:
        raise ClusterError(
            f"no broker reports the feature {_FEATURE}: only a cluster of klamm with a shared metadata store has it. "
            f"The start of a single broker raises its version by itself"
        )
    return reported


def _cluster(arguments: argparse.Namespace) -> Cluster:
    timeout = str(int(TIMEOUT_S * 1000))
    return Cluster(
        ClientConfig.from_mapping(
            {
                "bootstrap.servers": arguments.bootstrap_server,
                "request.timeout.ms": timeout,
                "default.api.timeout.ms": timeout,
                **security_settings(dict(arguments.properties)),
            }
        )
    )
