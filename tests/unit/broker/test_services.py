"""What the parts of a broker have to do with one another when it stops."""

from __future__ import annotations

from klamm.broker.context import BrokerContext
from klamm.broker.server import BrokerServer
from klamm.testing import Broker


def test_a_request_that_outlives_the_metadata_finds_its_partition() -> None:
    """A broker that stops lets requests end that change something; the metadata store may be closed by then."""

    async def context_of(server: BrokerServer) -> BrokerContext:
        context = server.services.context
        assert context is not None
        return context

    with Broker() as broker:
        context = broker.run_in_broker(context_of)
        count = context.config.offsets_topic_num_partitions
    assert context.groups.partition_for("a group that was not asked for before") < count
