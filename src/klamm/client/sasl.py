"""SASL authentication: `sasl.mechanism` with `sasl.jaas.config`, and the tokens of each mechanism.

A mechanism exchanges tokens: the client sends `first`, then `answer` to each challenge until `answer` returns None. The
APIs around it (SaslHandshake, SaslAuthenticate; KIP-43, KIP-152) are in `conversation.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from klamm.client.errors import AuthenticationFailed, ClientConfigError
from klamm.client.jaas import LoginModule, parse_jaas_config
from klamm.client.password import Password
from klamm.client.scram import HASHES, Scram

__all__ = ["HOW_TO", "Mechanism", "Plain", "SaslConfig", "new_exchange", "parse_sasl"]

HOW_TO: Final = 'the guide "Connect Spark with TLS and SASL" (docs/how-to/connect-spark-with-tls.md) shows how'

_PLAIN: Final = "PLAIN"
_MECHANISMS: Final = (_PLAIN, *HASHES)
_LOGIN_MODULES: Final = {
    _PLAIN: ("PlainLoginModule", "ScramLoginModule"),
    **dict.fromkeys(HASHES, ("ScramLoginModule",)),
}


class Mechanism(Protocol):
    """The client's side of one exchange of tokens."""

    def first(self) -> bytes:
        """Returns the client's first token."""

    def answer(self, challenge: bytes) -> bytes | None:
        """Returns the client's token for a challenge; None at the end. Raises `AuthenticationFailed`."""


@dataclass(frozen=True, slots=True)
class SaslConfig:
    """A mechanism and the credentials for it."""

    mechanism: str
    username: str
    password: Password
    is_token: bool = False
    """Whether name and password are a delegation token's id and HMAC (`tokenauth`, KIP-48)."""


class Plain:
    """PLAIN (RFC 4616): name and password in clear text, to be used with TLS."""

    def __init__(self, username: str, password: Password) -> None:
        self._token = f"\0{username}\0{password.value}".encode()

    def first(self) -> bytes:
        """Returns the client's first token."""
        return self._token

    def answer(self, challenge: bytes) -> None:
        """Returns None, the end. Raises `AuthenticationFailed` for a challenge, since PLAIN has none."""
        if challenge:
            raise AuthenticationFailed("PLAIN: the broker sent a challenge, of which the mechanism has none")


def new_exchange(config: SaslConfig) -> Mechanism:
    """Returns a new exchange; each authentication needs its own."""
    if config.mechanism in HASHES:
        return Scram(
            config.mechanism, config.username, config.password, secrets.token_urlsafe(18), is_token=config.is_token
        )
    return Plain(config.username, config.password)


def parse_sasl(given: Mapping[str, str]) -> SaslConfig:
    """Returns the credentials of Kafka's keys `sasl.…`. Raises `ClientConfigError`, which shows none of them."""
    mechanism = given.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism == "GSSAPI":
        is_given = "=GSSAPI" if "sasl.mechanism" in given else " is missing, which means GSSAPI"
        raise ClientConfigError(
            f"sasl.mechanism{is_given}: Kerberos is not supported; use one of {', '.join(_MECHANISMS)}, for which a "
            f"broker can have another listener: {HOW_TO}"
        )
    if mechanism not in _MECHANISMS:
        raise ClientConfigError(f"sasl.mechanism={mechanism} is not supported: it is one of {', '.join(_MECHANISMS)}")
    text = given.get("sasl.jaas.config")
    if text is None:
        raise ClientConfigError(
            f"sasl.jaas.config is missing: a JAAS file of the JVM is not read here; {HOW_TO} a login module is given"
        )
    return _credentials(mechanism, parse_jaas_config(text))


def _credentials(mechanism: str, module: LoginModule) -> SaslConfig:
    fitting = _LOGIN_MODULES[mechanism]
    if module.name not in fitting:
        raise ClientConfigError(
            f"sasl.jaas.config: for sasl.mechanism={mechanism} the login module is {fitting[0]}, not the one named"
        )
    for option in ("username", "password"):
        if not module.options.get(option):
            raise ClientConfigError(f"sasl.jaas.config: {module.name} has no {option}")
    return SaslConfig(
        mechanism,
        module.options["username"],
        Password(module.options["password"]),
        is_token=mechanism in HASHES and module.options.get("tokenauth", "").lower() == "true",
    )
