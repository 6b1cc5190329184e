"""Tests FindCoordinator: what clients are answered while the topic of the coordinators can't be created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.event_loop import in_loop

from klamm.broker.handlers import find_coordinator
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.metadata_store import Change
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse

if TYPE_CHECKING:
    from tests.unit.broker.handlers.conftest import ServeMetadata


@in_loop
async def test_no_broker_is_live_when_the_topic_is_needed(serve_metadata: ServeMetadata) -> None:
    """Without a live broker the topic of the coordinators can't be created. The client gets a retriable code: a broker
    that has lost its session with the metadata store starts again a moment later."""
    async with serve_metadata(BrokerConfig()) as broker:
        await broker.store.transact({}, [Change("live/1", None)])
        assert not broker.metadata.image.brokers
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["key"])
            answer = find_coordinator.handle(broker.request(4), request)
            response = answer if isinstance(answer, FindCoordinatorResponse) else await answer
            (found,) = response.coordinators
            assert (found.key, found.error_code) == ("key", ErrorCode.COORDINATOR_NOT_AVAILABLE)
            assert (found.node_id, found.host, found.port) == (-1, "", -1)
