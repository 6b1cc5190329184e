"""A small request has no huge answer: what it names once is not repeated in full for each of very many elements."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.hostile import largest_requests as requests_module
from tests.hostile.largest_requests import largest_requests
from tests.support.wire import Wire

from klamm.broker.network.dispatch import ACCEPTED_VERSIONS
from klamm.protocol.api import ApiKey
from klamm.testing import Broker

LONG_NAME = "x" * 20_000
FRAME_BYTES = 16 * 1024
"""For the elements that lie within what is named."""
TIMES = 100
"""An answer may be so many times as long: one that lists all settings of each resource is."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that knows none of the names."""
    with Broker() as broker:
        yield broker


@pytest.mark.parametrize("key", ACCEPTED_VERSIONS, ids=lambda key: key.name.lower())
def test_an_answer_is_not_much_longer_than_its_request(
    broker: Broker, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where a very long name comes with thousands of partitions."""
    monkeypatch.setattr(requests_module, "TOPIC", LONG_NAME)
    version = ACCEPTED_VERSIONS[key][1]
    for request in largest_requests(key, version):
        if len(request.path) > 1 and not request.differ:
            body = request.body(FRAME_BYTES)
            with Wire(broker.bootstrap_servers) as wire:
                wire.socket.settimeout(60)
                assert len(wire.exchange(key, version, body)) < TIMES * len(body), f"{request}"
