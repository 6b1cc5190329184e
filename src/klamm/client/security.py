"""`security.protocol` and its keys: whether a client uses TLS, SASL, both or neither.

Every key `ssl.…` and `sasl.…` of Kafka's consumer is in one of the tables here: honoured, without meaning outside of
Java, or refused with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.client.errors import ClientConfigError
from klamm.client.sasl import HOW_TO, SaslConfig, parse_sasl
from klamm.client.tls import TlsConfig, parse_tls

__all__ = ["SECURITY_KEYS", "Security", "is_security_key", "parse_security"]

_logger = logging.getLogger(__name__)

_PROTOCOLS: Final = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
_TLS_KEYS: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_SASL_KEYS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism"})
# They choose among parts of Java's TLS or tune its Kerberos, which this client does not have: ignoring them is safe.
_WITHOUT_MEANING: Final = frozenset(
    {
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
_JAVA_CLASSES: Final = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "ssl.engine.factory.class",
    }
)
_OAUTH_PREFIX: Final = "sasl.oauthbearer."

SECURITY_KEYS: Final = frozenset({"security.protocol"}) | _TLS_KEYS | _SASL_KEYS
"""The keys that `parse_security` honours."""


@dataclass(frozen=True, slots=True)
class Security:
    """The TLS and SASL settings of a client; hashable, and its repr shows no secret."""

    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name for this combination."""
        return next(
            name for name, parts in _PROTOCOLS.items() if parts == (self.tls is not None, self.sasl is not None)
        )


def is_security_key(key: str) -> bool:
    """Returns whether `parse_security` handles a key: with an effect, a warning or an error."""
    return key == "security.protocol" or key.startswith(("ssl.", "sasl."))


def parse_security(given: Mapping[str, str]) -> Security:
    """Parses Kafka's keys `security.protocol`, `ssl.…` and `sasl.…`. Raises `ClientConfigError`, without secrets."""
    name = given.get("security.protocol", "PLAINTEXT").strip().upper()
    if name not in _PROTOCOLS:
        raise ClientConfigError(f"security.protocol={name}: it is one of {', '.join(_PROTOCOLS)}")
    has_tls, has_sasl = _PROTOCOLS[name]
    for key in given:
        _require_understood(key)
    _warn_of_unused(given, name, has_tls=has_tls, has_sasl=has_sasl)
    return Security(parse_tls(given) if has_tls else None, parse_sasl(given) if has_sasl else None)


def _require_understood(key: str) -> None:
    if key in SECURITY_KEYS:
        return
    if key in _WITHOUT_MEANING:
        _logger.warning("%s has no effect: it chooses among parts of Java or tunes its Kerberos", key)
        return
    if key in _JAVA_CLASSES:
        raise ClientConfigError(f"{key}: it names a Java class, and there is no Java in this client")
    if key.startswith(_OAUTH_PREFIX):
        raise ClientConfigError(f"{key}: the mechanism OAUTHBEARER is not supported; {HOW_TO} to use another")
    raise ClientConfigError(f"{key}: it is no configuration key of Kafka's clients")


def _warn_of_unused(given: Mapping[str, str], name: str, *, has_tls: bool, has_sasl: bool) -> None:
    unused = [key for key in given if (not has_tls and key in _TLS_KEYS) or (not has_sasl and key in _SASL_KEYS)]
    if unused:
        _logger.warning("%s: no effect under security.protocol=%s", ", ".join(sorted(unused)), name)
