"""SCRAM-SHA-256 and SCRAM-SHA-512, the client's side (RFC 5802, RFC 7677): neither side sends the password.

As in Kafka (`ScramSaslClient`, `ScramFormatter`): no channel binding, and names and passwords are taken as UTF-8
without SASLprep.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from klamm.client.errors import AuthenticationFailed
from klamm.client.password import Password

__all__ = ["HASHES", "Scram"]

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Mechanism → hash."""

_MINIMUM_ITERATIONS: Final = 4_096
# Kafka's brokers allow up to 16,384. A far higher number is an attempt to keep this machine busy.
_MAXIMUM_ITERATIONS: Final = 1_000_000
_SERVER_FIRST: Final = re.compile(
    r"(?:m=[^,]*,)?r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>\d{1,9})(?:,.*)?"
)
_SERVER_FINAL: Final = re.compile(r"(?:e=(?P<error>[^,=]*)|v=(?P<signature>[A-Za-z0-9+/=]+))(?:,.*)?")


class Scram:
    """One exchange: `first`, then `answer` to each challenge until it returns None.

    Raises `AuthenticationFailed` for a malformed challenge, and for a server that does not know the password. `nonce`
    must be new for each exchange.
    """

    def __init__(
        self, mechanism: str, username: str, password: Password, nonce: str, *, is_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        # With a delegation token, name and password are its id and HMAC (KIP-48).
        self._first_bare = f"n={name},r={nonce}" + (",tokenauth=true" if is_token else "")
        self._expected_signature: bytes | None = None

    def first(self) -> bytes:
        """Returns the client's first message."""
        return f"n,,{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Returns the client's proof for the first challenge; verifies the server's signature in the second, returns
        None."""
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise self._failed("a challenge that is no text") from None
        if self._expected_signature is None:
            return self._proof(text)
        self._check(text)
        return None

    def _proof(self, challenge: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(challenge)
        if match is None:
            raise self._failed("a first message that is malformed")
        nonce, iterations = match["nonce"], int(match["iterations"])
        if not nonce.startswith(self._nonce):
            raise self._failed("a nonce that does not begin with the client's")
        if not _MINIMUM_ITERATIONS <= iterations <= _MAXIMUM_ITERATIONS:
            raise self._failed(
                f"{iterations} iterations, which are not between {_MINIMUM_ITERATIONS} and {_MAXIMUM_ITERATIONS}"
            )
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password.value.encode(), self._decoded(match["salt"]), iterations
        )
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c=biws,r={nonce}"  # biws: "n,,", no channel binding
        message = f"{self._first_bare},{challenge},{without_proof}".encode()
        signature = self._hmac(stored_key, message)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._expected_signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, challenge: str) -> None:
        match = _SERVER_FINAL.fullmatch(challenge)
        if match is None:
            raise self._failed("a final message that is malformed")
        if match["error"] is not None:
            raise AuthenticationFailed(f"{self._mechanism}: the broker answered with the error {match['error']!r}")
        assert self._expected_signature is not None
        if not hmac.compare_digest(self._decoded(match["signature"]), self._expected_signature):
            raise self._failed("a signature that proves nothing: it does not know the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def _decoded(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise self._failed("a message with malformed base64") from None

    def _failed(self, what: str) -> AuthenticationFailed:
        return AuthenticationFailed(f"{self._mechanism}: the broker sent {what}")
