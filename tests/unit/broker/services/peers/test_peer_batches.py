"""Tests how questions to other brokers are collected into requests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest
from tests.support.event_loop import in_loop

from klamm.broker.services.peers import peer_batches
from klamm.broker.services.peers.peer_batches import PeerBatches
from klamm.broker.services.peers.peers import PeerUnavailable
from klamm.protocol.types import BrokerId

A, B = BrokerId(1), BrokerId(2)


class World:
    """Batches with at most three entries, whose requests wait until the test answers them."""

    def __init__(self) -> None:
        self.requests: list[tuple[BrokerId, Mapping[str, int], asyncio.Future[None]]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.batches: PeerBatches[str, int, int] = PeerBatches(self._send, self._spawn, maximum_entries=3)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(coroutine))

    async def _send(self, broker_id: BrokerId, entries: Mapping[str, int]) -> Mapping[str, int]:
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests.append((broker_id, entries, answered))
        await answered
        return {key: 10 * entry for key, entry in entries.items()}

    def ask(self, broker_id: BrokerId, key: str, entry: int) -> asyncio.Task[int]:
        """Starts a question."""
        return asyncio.ensure_future(self.batches.ask(broker_id, key, entry))

    async def sent(self) -> list[tuple[BrokerId, Mapping[str, int]]]:
        """Returns all requests so far, once all tasks wait for the test."""
        for _ in range(10):
            await asyncio.sleep(0)
        return [(broker_id, entries) for broker_id, entries, _ in self.requests]


@in_loop
async def test_one_request_is_in_flight_to_a_broker() -> None:
    """What arrives while a request is in flight goes into the next one together, and other brokers do not wait."""
    world = World()
    first = world.ask(A, "a", 1)
    assert await world.sent() == [(A, {"a": 1})]
    later = [world.ask(A, "b", 2), world.ask(A, "c", 3), world.ask(B, "d", 4)]
    assert await world.sent() == [(A, {"a": 1}), (B, {"d": 4})]
    world.requests[0][2].set_result(None)
    assert await first == 10
    assert (await world.sent())[2:] == [(A, {"b": 2, "c": 3})]
    for _, _, answered in world.requests[1:]:
        answered.set_result(None)
    assert await asyncio.gather(*later) == [20, 30, 40]


@in_loop
async def test_a_request_has_a_limited_number_of_entries_and_each_key_once() -> None:
    """Entries beyond the limit, and a second entry of a key, wait for the next request, in their order."""
    world = World()
    asked = [world.ask(A, key, number) for number, key in enumerate("aabcd")]
    assert await world.sent() == [(A, {"a": 0, "b": 2, "c": 3})]
    world.requests[0][2].set_result(None)
    assert (await world.sent())[1:] == [(A, {"a": 1, "d": 4})]
    world.requests[1][2].set_result(None)
    assert await asyncio.gather(*asked) == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("error", [PeerUnavailable("away"), RuntimeError("a bug")])
def test_a_failed_request_fails_its_entries_only(error: Exception) -> None:
    """The entries of a failed request fail with PeerUnavailable; the waiting entries are sent."""

    async def scenario() -> None:
        world = World()
        first = world.ask(A, "a", 1)
        await world.sent()
        second = world.ask(A, "b", 2)
        world.requests[0][2].set_exception(error)
        with pytest.raises(PeerUnavailable):
            await first
        await world.sent()
        world.requests[1][2].set_result(None)
        assert await second == 20

    asyncio.run(scenario())


@in_loop
async def test_a_cancelled_entry_is_not_sent() -> None:
    """An entry whose task was cancelled while it waited is left out."""
    world = World()
    world.ask(A, "a", 1)
    await world.sent()
    cancelled, other = world.ask(A, "b", 2), world.ask(A, "c", 3)
    await world.sent()
    cancelled.cancel()
    world.requests[0][2].set_result(None)
    assert (await world.sent())[1:] == [(A, {"c": 3})]
    world.requests[1][2].set_result(None)
    assert await other == 30


def test_waiting_entries_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that hangs costs bounded memory: entries beyond the limit fail at once, the others when it stops."""
    monkeypatch.setattr(peer_batches, "_MAXIMUM_WAITING", 2)

    async def scenario() -> None:
        world = World()
        asked = [world.ask(A, "a", 1)]
        await world.sent()
        asked += [world.ask(A, "b", 2), world.ask(A, "c", 3)]
        await world.sent()
        with pytest.raises(PeerUnavailable, match="waiting"):
            await world.ask(A, "d", 4)
        world.tasks[0].cancel()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in outcomes] == [PeerUnavailable] * 3

    asyncio.run(scenario())
