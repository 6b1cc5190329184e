"""The command's properties for certificates and keys, as files and as texts."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.support.certificates import Authority, OpensslUnavailable
from tests.unit.insight.test_security_settings import tls

from klamm.client.password import Password
from klamm.client.tls import tls_context

KEY_PASSWORD = "of the key"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creates certificates and keys, in separate files and in one file."""
    folder = tmp_path_factory.mktemp("certificates")
    try:
        Authority(folder).issue("somebody", key_password=KEY_PASSWORD)
    except OpensslUnavailable as error:
        pytest.skip(str(error))
    return folder


def test_a_private_authority_is_trusted(folder: Path) -> None:
    """Only the given certificate authority is trusted, as a file or as text."""
    certificate = folder / "authority.pem"
    for config in (tls(ssl_ca_location=str(certificate)), tls(ssl_ca_pem=certificate.read_text())):
        (trusted,) = tls_context(config).get_ca_certs()
        assert "klamm test authority" in str(trusted["subject"])
        assert config.keystore_key is None
    assert tls_context(tls()).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("chain", "key"), [("somebody.crt", "somebody.encrypted.key"), ("somebody.pem", "somebody.pem")]
)
def test_a_certificate_of_the_client_is_shown(folder: Path, chain: str, key: str) -> None:
    """The client's certificate and key come from two files, one file with both, or texts; each block is used once."""
    configs = (
        tls(
            ssl_certificate_location=str(folder / chain),
            ssl_key_location=str(folder / key),
            ssl_key_password=KEY_PASSWORD,
        ),
        tls(
            ssl_certificate_pem=(folder / chain).read_text(),
            ssl_key_pem=(folder / key).read_text(),
            ssl_key_password=KEY_PASSWORD,
        ),
    )
    for config in configs:
        assert config.keystore_certificate_chain == (folder / "somebody.crt").read_text().strip()
        assert config.keystore_key == Password((folder / "somebody.encrypted.key").read_text().strip())
        assert config.key_password == Password(KEY_PASSWORD)
