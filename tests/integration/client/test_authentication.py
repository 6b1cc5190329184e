"""SASL authentication before the first request, in the blocking and the asyncio client."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.aio import AsyncConnection
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.connection import Connection
from klamm.client.errors import AuthenticationFailed, ConnectionFailed, GaveUp, UnsupportedByBroker
from klamm.client.password import Password
from klamm.client.sasl import SaslConfig
from klamm.client.security import Security
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_authenticate_response import SaslAuthenticateResponse
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.sasl_handshake_response import SaslHandshakeResponse

HANDSHAKE, METADATA, AUTHENTICATE = 17, 3, 36
PLAIN = Security(sasl=SaslConfig("PLAIN", "alice", Password("hunter2")))


@pytest.fixture
def sasl_config(config: ClientConfig, broker: ScriptedBroker) -> ClientConfig:
    broker.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(mechanisms=["PLAIN"]))
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse())
    return dataclasses.replace(config, security=PLAIN)


def _blocking(config: ClientConfig) -> None:
    connection = Connection(config.bootstrap_servers[0], config)
    connection.request(MetadataRequest(topics=[]), MetadataResponse)
    connection.close()


def _asyncio(config: ClientConfig) -> None:
    async def connect() -> None:
        connection = await AsyncConnection.open(config.bootstrap_servers[0], config)
        await connection.request(MetadataRequest(topics=[]), MetadataResponse)
        connection.close()

    asyncio.run(connect())


both_faces = pytest.mark.parametrize("connect", [_blocking, _asyncio])
Connect = Callable[[ClientConfig], None]


@both_faces
def test_the_client_says_who_it_is_before_anything_else(
    broker: ScriptedBroker, sasl_config: ClientConfig, connect: Connect
) -> None:
    """The client sends the mechanism in SaslHandshake, its token in SaslAuthenticate, then the first request."""
    tokens = []

    def authenticate(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        tokens.append(bytes(request.auth_bytes))
        return SaslAuthenticateResponse()

    broker.on(SaslAuthenticateRequest, authenticate)

    connect(sasl_config)

    assert tokens == [b"\0alice\0hunter2"]
    assert [key for key, _ in broker.seen[1:]] == [HANDSHAKE, AUTHENTICATE, METADATA]


@both_faces
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (33, r"no sasl\.mechanism=PLAIN on this listener; it has SCRAM-SHA-256, GSSAPI"),
        (34, r"does not take SASL.*another than SASL_PLAINTEXT"),
        (42, "INVALID_REQUEST: it gave no reason"),
        (999, "error code 999"),
    ],
)
def test_a_handshake_that_is_refused(
    broker: ScriptedBroker, sasl_config: ClientConfig, connect: Connect, code: int, message: str
) -> None:
    """The error for a refused handshake says what the listener supports."""
    broker.on(
        SaslHandshakeRequest, lambda _: SaslHandshakeResponse(error_code=code, mechanisms=["SCRAM-SHA-256", "GSSAPI"])
    )

    with pytest.raises(AuthenticationFailed, match=message):
        connect(sasl_config)


@both_faces
def test_a_token_that_is_refused(broker: ScriptedBroker, sasl_config: ClientConfig, connect: Connect) -> None:
    """The error for a refused token contains the broker's message and not the password."""
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(error_code=58, error_message="No such user"))

    with pytest.raises(
        AuthenticationFailed, match=r"'alice'.*PLAIN: SASL_AUTHENTICATION_FAILED: No such user"
    ) as error:
        connect(sasl_config)
    assert "hunter2" not in str(error.value)


def test_a_refusal_is_not_tried_again(broker: ScriptedBroker, sasl_config: ClientConfig) -> None:
    """A refused authentication is not retried, because retries could lock the account."""
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(error_code=58))
    cluster = Cluster(sasl_config)

    with pytest.raises(AuthenticationFailed):
        cluster.refresh(["t"])
    assert [key for key, _ in broker.seen].count(AUTHENTICATE) == 1
    cluster.close()


@both_faces
def test_a_challenge_where_there_is_none(broker: ScriptedBroker, sasl_config: ClientConfig, connect: Connect) -> None:
    """A challenge from the broker is an error, because PLAIN has no challenge."""
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(auth_bytes=b"?"))

    with pytest.raises(AuthenticationFailed, match="sent a challenge"):
        connect(sasl_config)


@both_faces
def test_a_broker_from_before_sasl_had_an_api(
    broker: ScriptedBroker, sasl_config: ClientConfig, connect: Connect
) -> None:
    """A broker without SaslAuthenticate is not supported. Before Kafka 1.0 tokens were sent without a request header
    (KIP-152)."""
    broker.versions[HANDSHAKE] = (0, 0)

    with pytest.raises(UnsupportedByBroker, match="needs one of 1 to 1"):
        connect(sasl_config)


@both_faces
def test_a_broker_that_hangs_up_may_come_back(
    broker: ScriptedBroker, sasl_config: ClientConfig, connect: Connect
) -> None:
    """A connection that closes during authentication is a retriable error, because the broker has not refused the
    password."""
    broker.on(SaslAuthenticateRequest, lambda _: None)

    with pytest.raises(ConnectionFailed, match=r"security\.protocol=SASL_PLAINTEXT"):
        connect(sasl_config)


def test_a_listener_that_wants_more_hangs_up_on_the_first_request(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A listener that requires authentication closes the connection at the first request after ApiVersions. The error
    names security.protocol."""
    broker.on(MetadataRequest, lambda _: None)

    with pytest.raises(GaveUp, match=r"is its listener one for security\.protocol=PLAINTEXT"):
        cluster.refresh(["t"])


@both_faces
def test_a_session_without_end_is_not_renewed(
    broker: ScriptedBroker, sasl_config: ClientConfig, connect: Connect
) -> None:
    """A session lifetime of zero means no limit, so the session is not renewed."""
    connect(sasl_config)

    assert [key for key, _ in broker.seen].count(AUTHENTICATE) == 1


def test_a_session_that_ends_is_renewed_before_the_next_request(
    broker: ScriptedBroker, sasl_config: ClientConfig
) -> None:
    """The client renews an expiring session before the next request, after the answers to earlier requests (KIP-368).
    These answers can still be received."""
    broker.on(
        SaslAuthenticateRequest,
        lambda _: SaslAuthenticateResponse(session_lifetime_ms=1),
        lambda _: SaslAuthenticateResponse(session_lifetime_ms=3_600_000),
    )
    connection = Connection(broker.address, sasl_config)
    # The session lifetime of one millisecond has passed when a request is encoded and sent.
    first = connection.send(MetadataRequest(topics=[]))
    while [key for key, _ in broker.seen].count(AUTHENTICATE) < 2:
        connection.receive(first, MetadataResponse)
        first = connection.send(MetadataRequest(topics=[]))
    second = connection.send(MetadataRequest(topics=[]))

    assert connection.receive(second, MetadataResponse).cluster_id == "scripted"
    assert connection.receive(first, MetadataResponse).cluster_id == "scripted"
    assert [key for key, _ in broker.seen].count(AUTHENTICATE) == 2
    connection.close()


def test_asyncio_holds_back_what_is_sent_while_it_renews(broker: ScriptedBroker, sasl_config: ClientConfig) -> None:
    """The asyncio client queues requests during a renewal and sends them afterwards, except abandoned ones."""
    broker.on(
        SaslAuthenticateRequest,
        lambda _: SaslAuthenticateResponse(session_lifetime_ms=1),
        lambda _: SaslAuthenticateResponse(session_lifetime_ms=3_600_000),
    )

    async def run() -> None:
        connection = await AsyncConnection.open(broker.address, sasl_config)
        await asyncio.sleep(0.01)
        pending = [connection.send(MetadataRequest(topics=[])) for _ in range(5)]
        connection.abandon(pending.pop())
        for one in reversed(pending):
            assert (await connection.receive(one, MetadataResponse)).cluster_id == "scripted"
        connection.close()

    asyncio.run(run())

    assert [key for key, _ in broker.seen[1:]] == [HANDSHAKE, AUTHENTICATE] * 2 + [METADATA] * 4


def test_a_renewal_that_is_refused_ends_the_connection(broker: ScriptedBroker, sasl_config: ClientConfig) -> None:
    """A refused renewal, for example after a password change, closes the connection."""
    broker.on(
        SaslAuthenticateRequest,
        lambda _: SaslAuthenticateResponse(session_lifetime_ms=1),
        lambda _: SaslAuthenticateResponse(error_code=58),
    )
    connection = Connection(broker.address, sasl_config)

    def ask_for_ever() -> None:
        while True:
            connection.request(MetadataRequest(topics=[]), MetadataResponse)

    with pytest.raises(AuthenticationFailed):
        ask_for_ever()
    assert connection.is_closed

    async def ask(connection: AsyncConnection) -> None:
        while True:
            await connection.request(MetadataRequest(topics=[]), MetadataResponse)

    async def run() -> None:
        connection = await AsyncConnection.open(broker.address, sasl_config)
        with pytest.raises(AuthenticationFailed):
            await ask(connection)
        assert connection.is_closed

    broker.on(
        SaslAuthenticateRequest,
        lambda _: SaslAuthenticateResponse(session_lifetime_ms=1),
        lambda _: SaslAuthenticateResponse(error_code=58),
    )
    asyncio.run(run())
