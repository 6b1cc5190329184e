"""Tests that a small request gets no huge answer: a name in the request is not repeated for each of many elements."""

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
"""The frame size for the elements of a named topic or group."""
TIMES = 100
"""The maximum ratio of the answer's size to the request's size; an answer that lists all settings of a resource is
long."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker without any of the topics that the requests name."""
    with Broker() as broker:
        yield broker


@pytest.mark.parametrize("key", ACCEPTED_VERSIONS, ids=lambda key: key.name.lower())
def test_an_answer_is_not_much_longer_than_its_request(
    broker: Broker, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is less than 100 times as long as its request, even for a very long name with thousands of
    partitions."""
    monkeypatch.setattr(requests_module, "TOPIC", LONG_NAME)
    version = ACCEPTED_VERSIONS[key][1]
    for request in largest_requests(key, version):
        if len(request.path) > 1 and not request.differ:
            body = request.body(FRAME_BYTES)
            with Wire(broker.bootstrap_servers) as wire:
                wire.socket.settimeout(60)
                assert len(wire.exchange(key, version, body)) < TIMES * len(body), f"{request}"
