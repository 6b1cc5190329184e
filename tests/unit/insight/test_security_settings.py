"""Tests the translation of librdkafka's TLS and SASL properties for klamm's own client."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from klamm.client.config import ClientConfig
from klamm.client.errors import ClientConfigError
from klamm.client.password import Password
from klamm.client.sasl import SaslConfig
from klamm.client.security import Security
from klamm.client.tls import TlsConfig
from klamm.insight.security_settings import security_settings


def security(properties: Mapping[str, str]) -> Security:
    """Returns the client's security settings for the properties."""
    return ClientConfig.from_mapping({"bootstrap.servers": "broker:9092", **security_settings(properties)}).security


def tls(**properties: str) -> TlsConfig:
    """Returns the client's TLS settings for the properties; an underscore in a name stands for a dot."""
    made = security({"security.protocol": "SSL", **{key.replace("_", "."): text for key, text in properties.items()}})
    assert made.sasl is None
    assert made.tls is not None
    return made.tls


@pytest.mark.parametrize(("text", "is_checked"), [("none", False), ("https", True)])
def test_the_hosts_name_is_checked_unless_it_is_said_otherwise(text: str, is_checked: bool) -> None:
    """The host name is checked unless `none` is set; librdkafka uses `none` where Kafka uses an empty text."""
    assert tls(ssl_endpoint_identification_algorithm=text, enable_ssl_certificate_verification="true") == TlsConfig(
        check_hostname=is_checked
    )


@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("password", ["secret", 'a "quoted" one;', r"back\slash\n", "two\nlines", "ümläut"])
def test_name_and_password_are_handed_over(key: str, mechanism: str, password: str) -> None:
    """User name and password reach the client unchanged, for all characters in the password."""
    given = {"security.protocol": "sasl_plaintext", key: mechanism, "sasl.username": "alice", "sasl.password": password}
    assert security(given) == Security(sasl=SaslConfig(mechanism, "alice", Password(password)))


def test_of_two_names_of_the_mechanism_the_last_counts() -> None:
    """If both names of the mechanism are set, the last one counts, as in librdkafka: a context uses one name, and -X
    may use the other."""
    given = {
        "sasl.mechanisms": "GSSAPI",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    made = security({"security.protocol": "SASL_SSL", **given})
    assert (made.protocol, made.sasl) == ("SASL_SSL", SaslConfig("PLAIN", "alice", Password("secret")))


def test_what_the_protocol_has_no_use_for_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Settings that the protocol does not use are dropped without a warning, as in librdkafka."""
    given = {"ssl.ca.location": "/nowhere", "sasl.username": "alice", "client.id": "somebody"}
    with caplog.at_level(logging.WARNING, "klamm.client"):
        assert security(given) == Security()
    assert not caplog.records


@pytest.mark.parametrize(
    ("protocol", "given"),
    [
        ("SSL", {"enable.ssl.certificate.verification": "false"}),
        ("SSL", {"ssl.crl.location": "/revoked.pem"}),
        ("SSL", {"ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256"}),
        ("SSL", {"ssl.keystore.location": "/store.p12", "ssl.keystore.password": "secret"}),
        ("SSL", {"ssl.ca.location": "/no/such/file"}),
        ("SSL", {"ssl.certificate.location": "/no/such/file", "ssl.key.location": "/no/such/file"}),
        ("SSL", {"ssl.key.pem": "no key"}),
        ("SASL_SSL", {}),
        ("SASL_SSL", {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": "principal=alice"}),
        ("SASL_PLAINTEXT", {"sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "secret"}),
    ],
)
def test_what_the_client_can_not_keep_to_is_an_error(protocol: str, given: dict[str, str]) -> None:
    """A setting that the client can't honour is an error that shows no secret, so the client is never less strict
    than librdkafka."""
    with pytest.raises(ClientConfigError) as refused:
        security({"security.protocol": protocol, **given})
    assert "secret" not in str(refused.value)
