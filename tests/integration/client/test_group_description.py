"""A group of either protocol is described by its coordinator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.errors import GaveUp, RequestRefused
from klamm.client.group_description import GroupDescriptions
from klamm.protocol.schema import consumer_group_describe_response as consumer
from klamm.protocol.schema import describe_groups_response as classic
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import Coordinator, FindCoordinatorResponse

NOT_COORDINATOR, LOADING, NOT_FOUND, DENIED = 16, 14, 69, 30


@pytest.fixture
def broker(broker: ScriptedBroker) -> ScriptedBroker:
    """Makes the scripted broker the coordinator."""
    host, port = broker.address
    coordinator = Coordinator(key="g", node_id=1, host=host, port=port)
    broker.on(FindCoordinatorRequest, lambda _: FindCoordinatorResponse(coordinators=[coordinator]))
    return broker


@pytest.fixture
def group(broker: ScriptedBroker, cluster: Cluster) -> GroupDescriptions:
    """Returns the descriptions of group g."""
    return GroupDescriptions(cluster, "g")


def _consumer(code: int = 0) -> Callable[[ConsumerGroupDescribeRequest], consumer.ConsumerGroupDescribeResponse]:
    def answer(request: ConsumerGroupDescribeRequest) -> consumer.ConsumerGroupDescribeResponse:
        (group_id,) = request.group_ids
        described = consumer.DescribedGroup(group_id=group_id, error_code=code, group_state="Stable", group_epoch=7)
        return consumer.ConsumerGroupDescribeResponse(groups=[described])

    return answer


def _classic(code: int = 0, state: str = "Stable") -> Callable[[DescribeGroupsRequest], classic.DescribeGroupsResponse]:
    def answer(request: DescribeGroupsRequest) -> classic.DescribeGroupsResponse:
        described = classic.DescribedGroup(group_id=request.groups[0], error_code=code, group_state=state)
        return classic.DescribeGroupsResponse(groups=[described])

    return answer


def test_a_consumer_group_is_described_with_its_epochs(broker: ScriptedBroker, group: GroupDescriptions) -> None:
    """A consumer group is described with its epochs, and its coordinator is looked up once."""
    broker.on(ConsumerGroupDescribeRequest, _consumer())
    for _ in range(2):
        described = group.describe()
        assert isinstance(described, consumer.DescribedGroup)
        assert (described.group_id, described.group_epoch) == ("g", 7)
    assert [key for key, _ in broker.seen].count(FindCoordinatorRequest.API_KEY or 0) == 1


def test_a_classic_group_is_asked_for_the_old_way(broker: ScriptedBroker, group: GroupDescriptions) -> None:
    """If the coordinator has no consumer group of that name, the client sends DescribeGroups for a classic group."""
    broker.on(ConsumerGroupDescribeRequest, _consumer(NOT_FOUND))
    broker.on(DescribeGroupsRequest, _classic())
    assert isinstance(group.describe(), classic.DescribedGroup)


def test_a_broker_without_the_new_protocol_is_asked_the_old_way(
    broker: ScriptedBroker, group: GroupDescriptions
) -> None:
    """A broker without ConsumerGroupDescribe, such as Apache Kafka before 3.7, gets DescribeGroups."""
    del broker.versions[ConsumerGroupDescribeRequest.API_KEY or 0]
    broker.on(DescribeGroupsRequest, _classic())
    assert isinstance(group.describe(), classic.DescribedGroup)


@pytest.mark.parametrize("answer", [_classic(NOT_FOUND, "Dead"), _classic(state="Dead")])
def test_a_group_that_is_not_there_is_none(
    broker: ScriptedBroker,
    group: GroupDescriptions,
    answer: Callable[[DescribeGroupsRequest], classic.DescribeGroupsResponse],
) -> None:
    """The description of an unknown group is None. Since version 6 the coordinator returns an error code, before that
    the state Dead."""
    broker.on(ConsumerGroupDescribeRequest, _consumer(NOT_FOUND))
    broker.on(DescribeGroupsRequest, answer)
    assert group.describe() is None


def test_it_follows_the_coordinator(broker: ScriptedBroker, group: GroupDescriptions) -> None:
    """A description is retried if the coordinator has moved, is loading, or has closed the connection."""
    broker.on(ConsumerGroupDescribeRequest, _consumer(NOT_COORDINATOR), _consumer(LOADING), lambda _: None, _consumer())
    assert group.describe() is not None
    assert [key for key, _ in broker.seen].count(FindCoordinatorRequest.API_KEY or 0) == 3


def test_what_does_not_pass_is_raised(broker: ScriptedBroker, group: GroupDescriptions) -> None:
    """A permanent error is raised at once, a retriable error after the timeout."""
    broker.on(ConsumerGroupDescribeRequest, _consumer(DENIED))
    with pytest.raises(RequestRefused, match="GROUP_AUTHORIZATION_FAILED: the coordinator does not describe group 'g'"):
        group.describe()
    broker.on(ConsumerGroupDescribeRequest, _consumer(LOADING))
    with pytest.raises(GaveUp, match="COORDINATOR_LOAD_IN_PROGRESS"):
        group.describe()
