"""Tests the UnregisterBroker API: which registrations it removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.event_loop import in_loop
from tests.support.steps import finished

from klamm.broker.handlers import unregister_broker
from klamm.config.broker_config import BrokerConfig
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest

if TYPE_CHECKING:
    from tests.unit.broker.handlers.conftest import ServeMetadata


@in_loop
async def test_unknown_and_single_brokers_are_refused(serve_metadata: ServeMetadata) -> None:
    """A broker that does not exist and a broker that is not part of a cluster are refused, with different errors."""
    async with serve_metadata(BrokerConfig()) as broker:
        for broker_id, code in ((77, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, ErrorCode.INVALID_REQUEST)):
            request = UnregisterBrokerRequest(broker_id=broker_id)
            with pytest.raises(KafkaError) as raised:
                await finished(unregister_broker.handle(broker.request(0), request))
            assert raised.value.code is code
        assert broker.metadata.image.registrations.keys() == {1}
