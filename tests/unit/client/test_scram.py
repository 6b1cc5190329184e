"""Tests SCRAM with the example of RFC 7677 and with invalid server messages."""

from __future__ import annotations

import pytest

from klamm.client.errors import AuthenticationFailed
from klamm.client.password import Password
from klamm.client.scram import Scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(password: str = "pencil", nonce: str = NONCE) -> Scram:
    return Scram("SCRAM-SHA-256", "user", Password(password), nonce)


def test_the_example_of_the_rfc() -> None:
    """Each message equals the RFC's example, and after the server's proof there is no further message."""
    scram = exchange()

    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.answer(SERVER_FIRST) == CLIENT_FINAL
    assert scram.answer(SERVER_FINAL) is None


def test_names_are_escaped_and_tokens_are_marked() -> None:
    """Commas in a name are escaped, and a delegation token is marked with an extension (KIP-48)."""
    scram = Scram("SCRAM-SHA-512", "a=b,c", Password("x"), "nonce", is_token=True)

    assert scram.first() == b"n,,n=a=3Db=2Cc,r=nonce,tokenauth=true"


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (b"", "first message that is malformed"),
        (b"\xff", "no text"),
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not begin with the client's"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095", "4095 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999", "999999999 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22,i=4096", "malformed base64"),
        (b"e=other-error", "first message that is malformed"),
    ],
)
def test_a_first_message_that_is_not_answered(challenge: bytes, message: str) -> None:
    """A first server message with another client's nonce, too few or too many iterations, or malformed fields is
    refused."""
    with pytest.raises(AuthenticationFailed, match=f"SCRAM-SHA-256: .*{message}"):
        exchange().answer(challenge)


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "it does not know the password"),
        (b"v=!", "final message that is malformed"),
        (b"", "final message that is malformed"),
        (b"e=invalid-proof", "error 'invalid-proof'"),
    ],
)
def test_a_server_that_does_not_prove_itself(challenge: bytes, message: str) -> None:
    """A server without a valid proof of the password is refused."""
    scram = exchange()
    scram.answer(SERVER_FIRST)

    with pytest.raises(AuthenticationFailed, match=message):
        scram.answer(challenge)
