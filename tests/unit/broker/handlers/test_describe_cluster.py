"""Tests DescribeCluster: the brokers and the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from klamm.broker.handlers import describe_cluster
from klamm.config.broker_config import BrokerConfig
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_cluster_request import DescribeClusterRequest
from klamm.protocol.schema.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]


def test_the_cluster_is_described(serve_metadata: Serve) -> None:
    """The answer has the cluster id, the controller, and the brokers under the address that the client reached."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            request = DescribeClusterRequest(include_cluster_authorized_operations=True)
            assert describe_cluster.handle(broker.request(2), request) == DescribeClusterResponse(
                cluster_id=broker.metadata.image.cluster_id,
                controller_id=1,
                brokers=[DescribeClusterBroker(broker_id=1, host="reached", port=1234, rack="r")],
                cluster_authorized_operations=8096,
            )
            unasked = describe_cluster.handle(broker.request(0), DescribeClusterRequest())
            assert unasked.cluster_authorized_operations == -(2**31)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 3"),
    ],
)
def test_who_looks_for_a_controllers_listener_is_told(
    serve_metadata: Serve, endpoint_type: int, code: ErrorCode, message: str
) -> None:
    """A client that asks for a controller's listener is refused with the message of Kafka's `AuthHelper`."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            request = DescribeClusterRequest(endpoint_type=endpoint_type)
            with pytest.raises(KafkaError) as caught:
                describe_cluster.handle(broker.request(1), request)
            response = describe_cluster.error_response(request, 1, caught.value.code, caught.value.message)
            assert (response.error_code, response.error_message) == (code, message)

    asyncio.run(scenario())
