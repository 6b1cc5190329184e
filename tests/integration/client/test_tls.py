"""TLS with certificates and keys that openssl creates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.certificates import Authority, OpensslUnavailable

from klamm.client.errors import ClientConfigError
from klamm.client.tls import parse_tls, tls_context


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    try:
        return Authority(tmp_path_factory.mktemp("authority"))
    except OpensslUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def store(authority: Authority) -> Path:
    """Returns a file with an encrypted key and its certificate."""
    return authority.issue("somebody", key_password="sesame")


def trust(authority: Authority, **more: str) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.certificate), **dotted(more)}


def dotted(options: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in options.items()}


def test_a_truststore_replaces_the_systems(authority: Authority) -> None:
    """A truststore replaces the system's certificates. It is a file, a text with blanks as line ends, or librdkafka's
    key for a file."""
    text = authority.certificate.read_text()
    for given in (
        trust(authority),
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "some words\n" + text.replace("\n", " ")},
        {"ssl.ca.location": str(authority.certificate)},
    ):
        (trusted,) = tls_context(parse_tls(given)).get_ca_certs()
        assert "klamm test authority" in str(trusted["subject"])


def test_a_keystore_is_opened(authority: Authority, store: Path) -> None:
    """A keystore is a file with key and chain, or two texts; the printed configuration contains no secret."""
    text = store.read_text()
    split = text.index("-----BEGIN CERTIFICATE")
    for keys in (
        {"ssl.keystore.location": str(store)},
        {"ssl.keystore.key": text[:split].replace("\n", "\t"), "ssl.keystore.certificate.chain": text[split:]},
    ):
        config = parse_tls({"ssl.keystore.type": "pem", "ssl.key.password": "sesame", **keys})
        tls_context(config)
        assert "sesame" not in repr(config)
        assert "BEGIN" not in repr(config)


def test_a_file_that_changed_is_read_again(authority: Authority, tmp_path: Path) -> None:
    """A changed certificate file is read again, because certificates are renewed while a query runs for months."""
    path = tmp_path / "trusted.pem"
    path.write_bytes(authority.certificate.read_bytes())
    config = parse_tls({"ssl.ca.location": str(path)})
    before = tls_context(config)
    assert tls_context(config) is before

    path.write_bytes(path.read_bytes() * 2)

    assert tls_context(config) is not before


@pytest.mark.parametrize(
    ("password", "message"), [(None, "ssl.key.password is missing"), ("guess", "is ssl.key.password right")]
)
def test_a_key_that_does_not_open(store: Path, password: str | None, message: str) -> None:
    """A missing or wrong key password is an error; OpenSSL does not ask for the password at the terminal."""
    given = {} if password is None else {"ssl.key.password": password}

    with pytest.raises(ClientConfigError, match=message) as error:
        parse_tls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store), **given})
    assert "guess" not in str(error.value)


def test_a_keystore_without_a_key(authority: Authority) -> None:
    """A keystore without a private key is an error."""
    with pytest.raises(ClientConfigError, match="one private key and the certificates of its chain are needed"):
        parse_tls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(authority.certificate)})
