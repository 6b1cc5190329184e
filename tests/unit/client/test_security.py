"""Tests that each of `security.protocol`, `ssl.…` and `sasl.…` has an effect, a warning or an error, and that no
secret is shown."""

from __future__ import annotations

import logging
import pickle

import pytest

from klamm.client.config import HONOURED_KEYS, ClientConfig
from klamm.client.errors import ClientConfigError
from klamm.client.password import Password
from klamm.client.sasl import SaslConfig
from klamm.client.security import Security

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hunter2";'
SCRAM = PLAIN.replace("plain.Plain", "scram.Scram")


def config(**options: str) -> ClientConfig:
    return ClientConfig.from_mapping(
        {"bootstrap.servers": "a:1", **{key.replace("_", "."): value for key, value in options.items()}}
    )


def sasl(mechanism: str, jaas: str, **more: str) -> ClientConfig:
    return config(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_jaas_config=jaas, **more)


def test_without_a_word_nothing_stands_between() -> None:
    """The default protocol is PLAINTEXT, as in Kafka."""
    assert config().security == Security()
    assert config().security.protocol == "PLAINTEXT"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_the_four_protocols(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    """Protocol names are case-insensitive, and each setting that the protocol does not use causes a warning."""
    made = config(
        security_protocol=protocol.lower(),
        sasl_mechanism="PLAIN",
        sasl_jaas_config=PLAIN,
        ssl_protocol="TLSv1.2",
    )

    assert made.security.protocol == protocol
    unused = [record.message for record in caplog.records]
    assert any("sasl.jaas.config" in message for message in unused) == (not protocol.startswith("SASL"))
    assert any("ssl.protocol" in message for message in unused) == (not protocol.endswith("SSL"))


@pytest.mark.parametrize(
    ("mechanism", "jaas", "is_token"),
    [
        ("PLAIN", PLAIN, False),
        ("PLAIN", SCRAM, False),
        ("SCRAM-SHA-256", SCRAM, False),
        ("SCRAM-SHA-512", SCRAM.replace(";", ' tokenauth="true";'), True),
    ],
)
def test_mechanisms(mechanism: str, jaas: str, is_token: bool) -> None:
    """The credentials come from the login module; PLAIN accepts either module, as in Kafka."""
    expected = SaslConfig(mechanism, "alice", Password("hunter2"), is_token)

    assert sasl(mechanism, jaas).security.sasl == expected


def test_a_secret_is_shown_nowhere() -> None:
    """Printed settings hide secrets; pickled settings keep them, because the settings travel to the workers."""
    made = sasl("PLAIN", PLAIN)

    assert "hunter2" not in f"{made!r} {made}"
    assert "[hidden]" in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(sasl("PLAIN", PLAIN))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: it is one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing, which means GSSAPI: Kerberos.*connect-spark"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: Kerberos is not"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism=OAUTHBEARER is not"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config is missing"),
        ({"ssl.engine.factory.class": "x.Y"}, "ssl.engine.factory.class: it names a Java class"),
        ({"sasl.login.callback.handler.class": "x.Y"}, "sasl.login.callback.handler.class: it names a Java class"),
        ({"sasl.oauthbearer.scope.claim.name": "x"}, "sasl.oauthbearer.scope.claim.name: .*OAUTHBEARER"),
        ({"sasl.username": "alice"}, "sasl.username: it is no configuration key"),
    ],
)
def test_what_is_refused(options: dict[str, str], message: str) -> None:
    """A refused key or value causes an error that names the key and says what to do instead."""
    with pytest.raises(ClientConfigError, match=f"^{message}"):
        ClientConfig.from_mapping({"bootstrap.servers": "a:1", **options})


@pytest.mark.parametrize(
    ("mechanism", "jaas", "message"),
    [
        ("SCRAM-SHA-256", PLAIN, "the login module is ScramLoginModule"),
        ("PLAIN", "x.KerberosLoginModule required;", "the login module is PlainLoginModule"),
        ("PLAIN", PLAIN.replace('username="alice"', ""), "has no username"),
        ("PLAIN", PLAIN.replace("hunter2", ""), "has no password"),
        ("PLAIN", PLAIN.replace(";", ""), "does not end with a semicolon"),
    ],
)
def test_credentials_that_do_not_fit(mechanism: str, jaas: str, message: str) -> None:
    """Credentials that do not fit the mechanism are refused before any connection, without showing the password."""
    with pytest.raises(ClientConfigError, match=message) as error:
        sasl(mechanism, jaas)
    assert "hunter2" not in str(error.value)


def test_parts_of_java_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Java-specific keys cause a warning only, so that a query with settings for the JVM client still runs."""
    with caplog.at_level(logging.WARNING, "klamm.client"):
        config(ssl_trustmanager_algorithm="PKIX", sasl_kerberos_service_name="kafka")

    assert [record.message.split(" ")[0] for record in caplog.records] == [
        "ssl.trustmanager.algorithm",
        "sasl.kerberos.service.name",
    ]


def test_honoured_keys_are_told() -> None:
    """`HONOURED_KEYS` lists the honoured keys without a configuration object."""
    assert {"bootstrap.servers", "security.protocol", "ssl.truststore.location", "sasl.jaas.config"} <= HONOURED_KEYS
    assert "security" not in HONOURED_KEYS
    assert "sasl.kerberos.service.name" not in HONOURED_KEYS
