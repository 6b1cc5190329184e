"""The request for an election."""

from __future__ import annotations

from tests.unit.insight.canned_cluster import CannedCluster

from klamm.insight.cluster.leader_elections import elect_leaders
from klamm.insight.cluster_access import TIMEOUT_S
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest


def test_the_cluster_answers_before_the_client_gives_up() -> None:
    """The client sends a request without an answer once more. The second election would show that there was nothing to
    elect, and hide what the first one did."""
    cluster = CannedCluster([1, 2], {"orders": [(1, 2)]})
    elect_leaders(cluster, [("orders", 0)])
    (request,) = (each for each in cluster.asked if isinstance(each, ElectLeadersRequest))
    assert request.timeout_ms < TIMEOUT_S * 1000
