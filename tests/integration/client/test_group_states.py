"""The states of groups are collected from all brokers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import GaveUp
from klamm.client.group_states import group_states
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListedGroup, ListGroupsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest

GROUPS = ListGroupsResponse(
    groups=[
        ListedGroup(group_id="billing", group_state="Reconciling", group_type="consumer"),
        ListedGroup(group_id="audit", group_state="Assigning", group_type="consumer"),
    ]
)


def test_each_broker_is_asked_once_however_many_groups_it_has(broker: ScriptedBroker, cluster: Cluster) -> None:
    """Each broker gets one ListGroups request for all its groups."""
    broker.on(ListGroupsRequest, lambda _: GROUPS)
    assert group_states(cluster) == {"billing": "Reconciling", "audit": "Assigning"}
    assert [key for key, _ in broker.seen].count(ListGroupsRequest.API_KEY or 0) == 1


def test_what_a_broker_does_not_tell_is_left_out(broker: ScriptedBroker, cluster: Cluster) -> None:
    """Groups are left out if their broker does not support states (before KIP-518), is loading its groups, or closes
    the connection."""
    broker.on(ListGroupsRequest, lambda _: ListGroupsResponse(error_code=14), lambda _: None, lambda _: GROUPS)
    assert group_states(cluster) == {}
    assert group_states(cluster) == {}
    broker.versions[ListGroupsRequest.API_KEY or 0] = (0, 3)
    cluster.close()
    assert group_states(cluster) == {}


def test_a_cluster_that_does_not_answer_is_told(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A cluster that does not answer raises an error, because it is unknown whether there are groups."""
    broker.on(MetadataRequest, lambda _: None)
    hasty = replace(config, default_api_timeout_ms=100)
    with closing(Cluster(hasty)) as cluster, pytest.raises(GaveUp, match="learn of the brokers"):
        group_states(cluster)
