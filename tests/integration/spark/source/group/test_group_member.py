"""A query's group membership without an available coordinator; other cases are in
`tests/spark/test_query_member.py`."""

from __future__ import annotations

import logging
import threading

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.connection import Connection
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import Coordinator, FindCoordinatorResponse
from klamm.spark.source.group.exclusive_assignor import MemberData
from klamm.spark.source.group.group_member import QueryMember


def member_of(config: ClientConfig) -> QueryMember:
    return QueryMember(
        config, "delays", MemberData("app", frozenset()), session_timeout_ms=10_000, heartbeat_interval_ms=10
    )


def test_a_query_that_waits_for_a_coordinator_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """A query that waits for a coordinator logs the broker's error and what to check, only once for repeated
    requests."""
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def nobody(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, error_code=code) for key in request.coordinator_keys]
        )

    with ScriptedBroker() as broker:
        broker.on(FindCoordinatorRequest, nobody)
        member = member_of(ClientConfig((broker.address,), retry_backoff_ms=1))
        member.start()
        while broker.seen.count((FindCoordinatorRequest.API_KEY or 0, FindCoordinatorRequest.VERSIONS[1])) < 5:
            assert not member.await_ownership(0.01)
        member.leave("the test is over")

    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "the coordinator of group 'delays' can't be had" in warning.getMessage()
    assert "COORDINATOR_NOT_AVAILABLE. Do the brokers run" in warning.getMessage()


def test_a_member_that_has_left_keeps_no_connection() -> None:
    """A member that has left keeps no connection open, also if its thread opens one after the others were closed."""
    with ScriptedBroker() as broker:
        member = member_of(ClientConfig((broker.address,)))
        has_left = threading.Event()
        clusters = [each for each in vars(member._member).values() if isinstance(each, Cluster)]

        def connect_late() -> None:
            has_left.wait()
            for cluster in clusters:
                cluster.any_connection()

        member._turn = connect_late  # type: ignore[method-assign]
        member.start()
        member.leave("the test is over")
        has_left.set()
        member._thread.join()
        assert clusters
        assert not any(cluster._connections for cluster in clusters)


def test_a_member_leaves_while_its_thread_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member leaves, and keeps no connection open, also if its thread opens one while the others are closed."""
    is_closing, has_connected = threading.Event(), threading.Event()
    close = Connection.close

    def close_late(connection: Connection) -> None:
        is_closing.set()
        has_connected.wait()
        close(connection)

    with ScriptedBroker() as broker:
        member = member_of(ClientConfig((broker.address,)))
        clusters = [each for each in vars(member._member).values() if isinstance(each, Cluster)]
        for cluster in clusters:
            cluster.any_connection()

        def connect() -> None:
            is_closing.wait()
            for cluster in clusters:
                cluster.connection_to_address(("localhost", broker.address[1]))
            has_connected.set()

        member._turn = connect  # type: ignore[method-assign]
        monkeypatch.setattr(Connection, "close", close_late)
        member.start()
        member.leave("the test is over")
        member._thread.join()
        assert clusters
        assert not any(cluster._connections for cluster in clusters)
