"""How a broker proves to another one which broker it is, before it fetches as a follower.

A leader believes a follower that it has fetched a record: the record is then committed. So a client that sends a
broker's id could make a leader commit what no other broker has. The proof is the id of the broker's run: it is random,
and only in the metadata store and in the broker's data directory. Neither side sends it. Both show that they know it,
by the messages of SCRAM-SHA-256 (RFC 5802) in SaslHandshake and SaslAuthenticate, on the listener for brokers.

The mechanism has a name of klamm's own, so a client that asks for SASL gets the answers of a listener without SASL.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from klamm.client.errors import AuthenticationFailed
from klamm.client.password import Password
from klamm.client.scram import Scram
from klamm.errors import KlammError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_authenticate_response import SaslAuthenticateResponse
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.sasl_handshake_response import SaslHandshakeResponse
from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from klamm.broker.services.peers.peers import PeerConnection

__all__ = ["MECHANISM", "IdentityCheck", "NotProven", "prove_identity"]

MECHANISM: Final = "KLAMM-BROKER"
"""The mechanism that brokers ask for in SaslHandshake."""

_SCRAM: Final = "SCRAM-SHA-256"
_HASH: Final = "sha256"
_ITERATIONS: Final = 4096
"""The minimum that SCRAM clients accept. More iterations would not help: a random id of 128 bits can't be guessed."""
_SALT: Final = b"klamm-broker"
"""Salts keep apart equal passwords. No two runs have the same id."""
_NONCE_BYTES: Final = 18
_LONGEST_TOKEN_BYTES: Final = 512
_CLIENT_FIRST: Final = re.compile(r"n,,(?P<bare>n=(?P<id>\d{1,10}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]{1,128}))")
_CLIENT_FINAL: Final = re.compile(
    r"(?P<without_proof>c=biws,r=(?P<nonce>[\x21-\x2b\x2d-\x7e]{1,256})),p=(?P<proof>[A-Za-z0-9+/=]{1,128})"
)


class NotProven(KlammError):
    """The sender has not shown that it is the broker that it says it is."""


async def prove_identity(connection: PeerConnection, broker_id: BrokerId, incarnation: str) -> None:
    """Shows the other broker that this connection belongs to a run of `broker_id`, and checks that it is a broker too.

    `incarnation`: the id of the run. Raises AuthenticationFailed, and the errors of `PeerConnection.request`.
    """
    handshake = await connection.request(SaslHandshakeRequest(mechanism=MECHANISM), SaslHandshakeResponse)
    if handshake.error_code != ErrorCode.NONE:
        raise AuthenticationFailed(
            f"the other broker refuses the mechanism {MECHANISM} with error code {handshake.error_code}: is its "
            f"inter.broker.listener.name the same as here?"
        )
    exchange = Scram(_SCRAM, str(broker_id), Password(incarnation), secrets.token_urlsafe(_NONCE_BYTES))
    token: bytes | None = exchange.first()
    while token is not None:
        answer = await connection.request(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        if answer.error_code != ErrorCode.NONE:
            raise AuthenticationFailed(f"the other broker does not believe this one: {answer.error_message}")
        token = exchange.answer(bytes(answer.auth_bytes))


class IdentityCheck:
    """The other side of one `prove_identity`: takes two tokens, and then knows the broker."""

    def __init__(self, incarnation_of: Callable[[BrokerId], str | None]) -> None:
        """Begins the check. `incarnation_of` returns the id of a live broker's run, None for any other broker."""
        self.broker_id: BrokerId | None = None
        """The broker at the other end, once it has shown its identity."""
        self._incarnation_of = incarnation_of
        self._claimed: tuple[BrokerId, str] | None = None
        self._message = ""
        """What both sides sign: the client's first message and the answer to it."""
        self._nonce = ""

    def answer(self, token: bytes) -> bytes:
        """Returns the answer to a token. Raises NotProven, and the check is then over."""
        if len(token) > _LONGEST_TOKEN_BYTES:
            raise NotProven(f"a token has at most {_LONGEST_TOKEN_BYTES} bytes, not {len(token)}")
        text = token.decode("utf-8", errors="replace")
        return self._challenge(text) if self._claimed is None else self._verify(text, *self._claimed)

    def _challenge(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise NotProven("the first token is malformed")
        broker_id = BrokerId(int(match["id"]))
        incarnation = self._incarnation_of(broker_id)
        if incarnation is None:
            raise NotProven(f"broker {broker_id} is not live")
        self._claimed = broker_id, incarnation
        self._nonce = match["nonce"] + secrets.token_urlsafe(_NONCE_BYTES)
        challenge = f"r={self._nonce},s={base64.b64encode(_SALT).decode()},i={_ITERATIONS}"
        self._message = f"{match['bare']},{challenge}"
        return challenge.encode()

    def _verify(self, text: str, broker_id: BrokerId, incarnation: str) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or match["nonce"] != self._nonce:
            raise NotProven("the second token is malformed")
        message = f"{self._message},{match['without_proof']}".encode()
        stored_key, server_key = _keys(incarnation)
        signature = hmac.digest(stored_key, message, _HASH)
        try:
            proof = base64.b64decode(match["proof"], validate=True)
        except binascii.Error:
            raise NotProven("the second token is malformed") from None
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=False))
        if not hmac.compare_digest(hashlib.new(_HASH, client_key).digest(), stored_key):
            raise NotProven(f"the sender does not know the id of broker {broker_id}'s present run")
        self.broker_id = broker_id
        return b"v=" + base64.b64encode(hmac.digest(server_key, message, _HASH))


@lru_cache(maxsize=256)
def _keys(incarnation: str) -> tuple[bytes, bytes]:
    """Returns the keys that check a client's proof and that sign for the server. This takes about a millisecond."""
    salted = hashlib.pbkdf2_hmac(_HASH, incarnation.encode(), _SALT, _ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", _HASH)
    return hashlib.new(_HASH, client_key).digest(), hmac.digest(salted, b"Server Key", _HASH)
