"""Several brokers of one machine that listen at all of its addresses."""

from __future__ import annotations

from pathlib import Path

from tests.support.several_brokers import SeveralBrokers
from tests.support.wire import Wire

from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse


def test_a_client_reaches_all_brokers_at_the_host_at_which_it_reached_one(tmp_path: Path) -> None:
    """A client of one broker gets the others at the same host, not at `localhost`, where only programs on the machine
    of the brokers reach them."""
    everywhere = {"listeners": "PLAINTEXT://0.0.0.0:0"}
    with SeveralBrokers(tmp_path, 3, everywhere) as brokers:
        ports = {node_id: int(brokers.address(node_id).split(":")[1]) for node_id in brokers.ids}
        for host in ("127.0.0.1", "127.0.0.2"):
            for node_id in brokers.ids:
                with Wire(f"{host}:{ports[node_id]}") as wire:
                    metadata = wire.call(MetadataResponse, 12, MetadataRequest(topics=[]))
                    keys = [f"group-{number}" for number in range(20)]
                    find = FindCoordinatorRequest(coordinator_keys=keys)
                    found = wire.call(FindCoordinatorResponse, 4, find).coordinators
                at = {each.node_id: (each.host, each.port) for each in metadata.brokers}
                assert at == {each: (host, port) for each, port in ports.items()}
                assert {each.host for each in found if not each.error_code} == {host}
