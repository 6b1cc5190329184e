"""Tests that the keys `ssl.…` give the same context as in Java, and that unusable settings fail before any
connection."""

from __future__ import annotations

import logging
import ssl

import pytest

from klamm.client.errors import ClientConfigError
from klamm.client.tls import TlsConfig, parse_tls, tls_context


def test_defaults_are_kafkas() -> None:
    """Defaults are the system's authorities, TLS 1.2 and 1.3, a check of the host name, and no client certificate."""
    context = tls_context(parse_tls({}))

    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize(
    ("protocols", "least", "most"),
    [
        ("TLSv1.2", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
        ("TLSv1.3 ,TLSv1.2", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
    ],
)
def test_enabled_protocols(protocols: str, least: ssl.TLSVersion, most: ssl.TLSVersion) -> None:
    """One or both protocols can be enabled."""
    context = tls_context(parse_tls({"ssl.enabled.protocols": protocols}))

    assert (context.minimum_version, context.maximum_version) == (least, most)


def test_outdated_protocols_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Outdated protocols are dropped with a warning; old configurations name them, and today's Java does not support
    them."""
    with caplog.at_level(logging.WARNING, "klamm.client"):
        assert parse_tls({"ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"}).protocols == ("TLSv1.2",)
    assert "TLSv1.1, TLSv1 is not used" in caplog.text


@pytest.mark.parametrize(
    ("suites", "protocols", "names"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ("TLSv1.2",), {"ECDHE-RSA-AES256-GCM-SHA384"}),
        (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
            ("TLSv1.2",),
            {"ECDHE-ECDSA-CHACHA20-POLY1305", "DHE-RSA-AES128-GCM-SHA256"},
        ),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", ("TLSv1.2",), {"ECDHE-RSA-AES128-SHA256"}),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", ("TLSv1.2",), {"AES256-GCM-SHA384"}),
        ("TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256", ("TLSv1.3",), set()),
    ],
)
def test_cipher_suites(suites: str, protocols: tuple[str, ...], names: set[str]) -> None:
    """Suites have the standard's names, and a protocol without a named suite is disabled."""
    config = parse_tls({"ssl.cipher.suites": suites})
    older = {suite["name"] for suite in tls_context(config).get_ciphers() if suite["protocol"] != "TLSv1.3"}

    assert config.protocols == protocols
    assert not names or older == names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl.truststore.location": "t.jks"}, r"ssl\.truststore\.type=JKS \(what it is when.*keytool -list"),
        ({"ssl.truststore.location": "t.p12", "ssl.truststore.type": "PKCS12"}, r"ssl\.truststore\.type=PKCS12: only"),
        ({"ssl.keystore.location": "t.jks"}, r"ssl\.keystore\.type=JKS.*openssl pkcs12"),
        ({"ssl.truststore.password": "hunter2"}, "but no ssl.truststore.location"),
        ({"ssl.keystore.password": "hunter2"}, "but no ssl.keystore.location"),
        (
            {"ssl.truststore.location": "t", "ssl.truststore.type": "PEM", "ssl.truststore.password": "hunter2"},
            "in PEM form has no password",
        ),
        (
            {"ssl.truststore.location": "t", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x"},
            "both given",
        ),
        ({"ssl.ca.location": "t", "ssl.truststore.location": "t"}, "librdkafka's key"),
        ({"ssl.truststore.location": "/no/such", "ssl.truststore.type": "PEM"}, "/no/such can't be read: No such file"),
        ({"ssl.truststore.certificates": "x", "ssl.truststore.type": "PEM"}, "there is no certificate in it"),
        (
            {
                "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "ssl.truststore.type": "PEM",
            },
            "a certificate can't be read",
        ),
        ({"ssl.keystore.key": "hunter2", "ssl.keystore.type": "PEM"}, "no ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": "x", "ssl.keystore.type": "PEM"}, "but no ssl.keystore.key"),
        ({"ssl.endpoint.identification.algorithm": "none"}, "it is https, or empty"),
        ({"ssl.protocol": "TLSv1"}, "ssl.protocol=TLSv1: it is"),
        ({"ssl.enabled.protocols": "TLSv1"}, "at least one of"),
        ({"ssl.enabled.protocols": "TLSv1.4"}, "no protocol TLSv1.4"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "can't choose among the suites of TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_NO_WITH_SUCH"}, "OpenSSL has no suite TLS_NO_WITH_SUCH"),
        ({"ssl.cipher.suites": "HIGH"}, "'HIGH' is not the name of a suite"),
        (
            {"ssl.cipher.suites": "TLS_RSA_WITH_AES_256_GCM_SHA384", "ssl.enabled.protocols": "TLSv1.3"},
            "none of the suites belongs to an enabled protocol",
        ),
    ],
)
def test_what_cannot_be_used(options: dict[str, str], message: str) -> None:
    """An unusable setting is an error that starts with the key and shows no secret."""
    with pytest.raises(ClientConfigError, match=f"^ssl.*{message}|^{message}") as error:
        parse_tls(options)
    assert "hunter2" not in str(error.value)


def test_settings_are_compared_by_value() -> None:
    """Equal settings give the same context, so that clients share it."""
    assert tls_context(TlsConfig()) is tls_context(TlsConfig())
