"""Runs Apache Kafka with a listener for each security protocol, and provides the credentials of clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.certificates import Authority, OpensslUnavailable
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.toolchains import toolchain_is_missing

__all__ = ["KEY_PASSWORD", "MECHANISMS", "PASSWORD", "SecureKafka", "secure_kafka"]

PASSWORD = "alice's secret; = 'so'"
KEY_PASSWORD = "of the key"
# Kafka's broker requires one second between two authentications of a connection.
_SESSION_LIFETIME_MS = 3_000
_MODULES = "org.apache.kafka.common.security"
MECHANISMS = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
_LISTENERS = {"TLS": "SSL", "MUTUAL": "SSL", "SASL_TLS": "SASL_SSL", "SASL": "SASL_PLAINTEXT"}


class SecureKafka(NamedTuple):
    """A broker with the listeners TLS, MUTUAL (TLS that requires a client certificate), SASL_TLS and SASL."""

    broker: ApacheKafka
    authority: Authority
    other_authority: Authority
    client_store: Path
    stranger_store: Path

    def options(self, listener: str, **more: str) -> dict[str, str]:
        """Returns the options of a client of this listener; an underscore in a name stands for a dot."""
        given = {
            "bootstrap.servers": self.broker.addresses.get(listener, self.broker.bootstrap_servers),
            "security.protocol": _LISTENERS.get(listener, "PLAINTEXT"),
            "default.api.timeout.ms": "30000",
        }
        if given["security.protocol"].endswith("SSL"):
            given |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.certificate)}
        return given | {key.replace("_", "."): value for key, value in more.items()}

    def client_options(self, listener: str) -> dict[str, str]:
        """Returns the options of a client with a certificate."""
        return self.options(
            listener,
            ssl_keystore_type="PEM",
            ssl_keystore_location=str(self.client_store),
            ssl_key_password=KEY_PASSWORD,
        )

    def sasl_options(self, listener: str, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """Returns the options of a client that authenticates as user alice with SASL."""
        return self.options(listener) | {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{_MODULES}.{MECHANISMS[mechanism]} required username="alice" password="{password}";',
        }


def _listener_config(authority: Authority, broker_store: Path) -> Iterator[tuple[str, str]]:
    for listener in ("tls", "mutual", "sasl_tls"):
        prefix = f"listener.name.{listener}.ssl"
        yield f"{prefix}.keystore.type", "PEM"
        yield f"{prefix}.keystore.location", str(broker_store)
        yield f"{prefix}.truststore.type", "PEM"
        yield f"{prefix}.truststore.location", str(authority.certificate)
    yield "listener.name.mutual.ssl.client.auth", "required"
    for listener in ("sasl_tls", "sasl"):
        prefix = f"listener.name.{listener}"
        yield f"{prefix}.sasl.enabled.mechanisms", ",".join(MECHANISMS)
        for mechanism, module in MECHANISMS.items():
            users = f' user_alice="{PASSWORD}"' if mechanism == "PLAIN" else ""
            key = f"{prefix}.{mechanism.lower()}"
            yield f"{key}.sasl.jaas.config", f"{_MODULES}.{module} required{users};"
            if mechanism == "SCRAM-SHA-512":
                yield f"{key}.connections.max.reauth.ms", str(_SESSION_LIFETIME_MS)


@contextmanager
def secure_kafka(folder: Path) -> Iterator[SecureKafka]:
    """Runs the broker with certificates in `folder`. Skips the test on a machine without openssl or Java."""
    try:
        authority, other = Authority(folder), Authority(folder, "other-authority")
        client_store = authority.issue("client", key_password=KEY_PASSWORD)
        stranger_store = other.issue("stranger")
        config = dict(_listener_config(authority, authority.issue("broker", ["DNS:localhost"])))
        with ApacheKafka(config, listeners=_LISTENERS, scram_users={"alice": PASSWORD}) as broker:
            yield SecureKafka(broker, authority, other, client_store, stranger_store)
    except OpensslUnavailable as error:
        toolchain_is_missing("openssl", str(error))
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))
