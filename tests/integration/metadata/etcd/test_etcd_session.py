"""Tests how long a session with etcd lasts by the clock of sessions, without an etcd."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any, cast

import pytest

from klamm.config.broker_config import BrokerConfig
from klamm.metadata import service
from klamm.metadata.etcd import etcd_session
from klamm.metadata.etcd.etcd_client import EtcdClient
from klamm.metadata.etcd.etcd_session import EtcdSession
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.service import MetadataService

TIMEOUT_S = 1


class Client:
    """An etcd that answers every request at once."""

    def call(self, _method: Any, request: Any) -> Any:
        return messages.LeaseGrantResponse(ID=1, TTL=getattr(request, "TTL", 0))

    def call_stream(self, _method: Any, request: Any, _timeout_s: float) -> Any:
        return messages.LeaseKeepAliveResponse(ID=request.ID, TTL=TIMEOUT_S)


class Clock:
    """The clock of sessions, which stands still until the test sets it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (etcd_session, service):
        monkeypatch.setattr(module, "session_time", made)
    return made


def test_a_session_ends_while_the_machine_is_suspended(clock: Clock) -> None:
    """Once the machine runs again, the session is not valid, and is lost: etcd has expired the lease meanwhile, and
    another broker may lead the partitions."""

    async def scenario() -> None:
        lost = asyncio.Event()
        session = EtcdSession(cast(EtcdClient, Client()), TIMEOUT_S, lambda _: lost.set())
        await session.open()
        assert session.is_valid
        assert not lost.is_set()
        clock.now_s += TIMEOUT_S
        assert not session.is_valid
        async with asyncio.timeout(30):
            await lost.wait()
        await session.close()

    asyncio.run(scenario())


def test_a_late_answer_does_not_bring_a_session_back(clock: Clock) -> None:
    """The keep-alive is answered after the session has ended by the clock. The session stays over, because the broker
    has refused to commit records meanwhile, and would not look at them again."""

    class Late(Client):
        """Answers a keep-alive when the time that the one before it has given is over."""

        def __init__(self) -> None:
            self.delays_s = [TIMEOUT_S * 0.5, TIMEOUT_S * 0.49]

        def call_stream(self, method: Any, request: Any, timeout_s: float) -> Any:
            clock.now_s += self.delays_s.pop(0) if self.delays_s else 0
            return super().call_stream(method, request, timeout_s)

    async def scenario() -> None:
        lost = asyncio.Event()
        session = EtcdSession(cast(EtcdClient, Late()), TIMEOUT_S, lambda _: lost.set())
        await session.open()
        async with asyncio.timeout(10):
            await lost.wait()
        assert not session.is_valid
        await session.close()

    asyncio.run(scenario())


def test_a_session_that_was_seen_to_have_ended_is_not_extended(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a session ends while the thread of the keep-alives extends it. The loop sees a session that is valid,
    or one that has ended and stays so.

    Otherwise the loop has acted on the end: a transaction of unknown outcome, which the session may still commit, was
    given up without a fence."""
    monkeypatch.setattr(EtcdSession, "_run", lambda _: None)
    monkeypatch.setattr(EtcdSession, "_note_beat", lambda _: None)
    observed: list[bool] = []
    loop = Thread()

    class Answering(Client):
        """Lets the time of the session end, and the loop look at it, right after the thread has looked at the clock."""

        def call_stream(self, method: Any, request: Any, timeout_s: float) -> Any:
            monkeypatch.setattr(etcd_session, "session_time", look_once)
            return super().call_stream(method, request, timeout_s)

    def look_once() -> float:
        monkeypatch.setattr(etcd_session, "session_time", clock)
        seen = clock.now_s
        clock.now_s += TIMEOUT_S * 0.1
        loop.start()
        loop.join(0.1)  # The loop may have to wait for the thread.
        return seen

    async def scenario() -> None:
        session = EtcdSession(cast(EtcdClient, Answering()), TIMEOUT_S, lambda _: None)
        await session.open()
        nonlocal loop
        loop = Thread(target=lambda: observed.append(session.is_valid))
        clock.now_s += TIMEOUT_S * 0.8
        is_extended = session._keep_alive()
        loop.join()
        assert observed == [session.is_valid] == [is_extended] == [True]
        clock.now_s += TIMEOUT_S
        assert session.valid_until == 0
        clock.now_s -= TIMEOUT_S
        assert not session.is_valid
        await session.close()

    asyncio.run(scenario())


def test_the_service_compares_the_session_with_the_same_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was suspended for too long acknowledges nothing more."""

    async def scenario() -> None:
        store = MemoryMetadata().connect()
        monkeypatch.setattr(store, "valid_until", lambda: 105.0)
        metadata = await MetadataService.open(store, BrokerConfig())
        assert metadata.has_session()
        clock.now_s = 105.0
        assert not metadata.has_session()
        await metadata.close()

    asyncio.run(scenario())
