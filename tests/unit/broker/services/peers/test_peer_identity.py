"""Tests how a broker proves to another one which broker it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from klamm.broker.services.peers.peer_identity import MECHANISM, IdentityCheck, NotProven, prove_identity
from klamm.client.errors import AuthenticationFailed
from klamm.client.password import Password
from klamm.client.scram import Scram
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_authenticate_response import SaslAuthenticateResponse
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.sasl_handshake_response import SaslHandshakeResponse
from klamm.protocol.types import BrokerId

TWO = BrokerId(2)
RUNS = {TWO: "Zk3zR0lXQ3mZtq8Jb2o1Vw", BrokerId(3): "6n1QyTtQQ4C3wKAeW2bGzA"}


class OtherBroker:
    """A connection to a broker that checks identities."""

    is_closed = False

    def __init__(self, change: Callable[[bytes], bytes] = bytes) -> None:
        self.check: IdentityCheck | None = None
        self.tokens: list[bytes] = []
        self._change = change

    async def request(self, request: Any, answer: Any, /) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            if request.mechanism != MECHANISM:
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self.check = IdentityCheck(RUNS.get)
            return SaslHandshakeResponse(mechanisms=[MECHANISM])
        assert isinstance(request, SaslAuthenticateRequest)
        assert self.check is not None
        self.tokens.append(bytes(request.auth_bytes))
        try:
            token = self.check.answer(self._change(bytes(request.auth_bytes)))
        except NotProven as error:
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error))
        self.tokens.append(token)
        return SaslAuthenticateResponse(auth_bytes=token)

    def close(self) -> None:
        """Does nothing."""


def prove(other: OtherBroker, broker_id: BrokerId, incarnation: str) -> None:
    """Runs the whole exchange."""
    asyncio.run(prove_identity(other, broker_id, incarnation))


def test_a_broker_that_knows_the_id_of_its_run_is_known() -> None:
    """After two tokens the other side knows the broker, and the id of the run was in none of the tokens."""
    other = OtherBroker()
    prove(other, TWO, RUNS[TWO])
    assert other.check is not None
    assert other.check.broker_id == TWO
    assert len(other.tokens) == 4
    assert not any(RUNS[TWO].encode() in token for token in other.tokens)


@pytest.mark.parametrize(
    ("broker_id", "incarnation", "reason"),
    [
        (TWO, RUNS[BrokerId(3)], "does not know the id of broker 2's present run"),
        (TWO, "", "does not know the id of broker 2's present run"),
        (BrokerId(4), RUNS[TWO], "broker 4 is not live"),
    ],
)
def test_a_sender_without_the_id_of_the_run_is_refused(broker_id: BrokerId, incarnation: str, reason: str) -> None:
    """The id of another run, also one of the same broker before its restart, proves nothing."""
    other = OtherBroker()
    with pytest.raises(AuthenticationFailed, match=reason):
        prove(other, broker_id, incarnation)
    assert other.check is not None
    assert other.check.broker_id is None


def test_tokens_of_an_earlier_exchange_prove_nothing() -> None:
    """A recorded exchange can't be repeated, because the other side takes part in the nonce."""
    first = OtherBroker()
    prove(first, TWO, RUNS[TWO])
    check = IdentityCheck(RUNS.get)
    check.answer(first.tokens[0])
    with pytest.raises(NotProven, match="malformed"):
        check.answer(first.tokens[2])
    assert check.broker_id is None


@pytest.mark.parametrize(
    "token", [b"", b"n,,n=2", b"n,,n=2,r=" + b"x" * 200, b"\xff" * 40, b"n,,n=x,r=abc", b"x" * 1_000_000]
)
def test_malformed_first_tokens_are_refused(token: bytes) -> None:
    """Bytes that are no token of a broker are refused with a reason, whatever their length."""
    with pytest.raises(NotProven, match=r"malformed|at most"):
        IdentityCheck(RUNS.get).answer(token)


@pytest.mark.parametrize("proof", [b"", b"AAAA", b"A" * 44, b"===="])
def test_malformed_proofs_are_refused(proof: bytes) -> None:
    """A second token whose proof has another length, or is no base64, is refused."""
    check = IdentityCheck(RUNS.get)
    exchange = Scram("SCRAM-SHA-256", "2", Password(RUNS[TWO]), "nonce")
    final = exchange.answer(check.answer(exchange.first()))
    assert final is not None
    with pytest.raises(NotProven):
        check.answer(final.partition(b",p=")[0] + b",p=" + proof)
    assert check.broker_id is None


def test_a_program_that_only_pretends_to_be_a_broker_is_noticed() -> None:
    """The sender refuses the other side if that does not know the id of the run either."""

    class Impostor(OtherBroker):
        async def request(self, request: Any, answer: Any, /) -> Any:
            response = await super().request(request, answer)
            if getattr(response, "auth_bytes", b"").startswith(b"v="):
                response.auth_bytes = b"v=" + b"A" * 44
            return response

    with pytest.raises(AuthenticationFailed):
        prove(Impostor(), TWO, RUNS[TWO])
