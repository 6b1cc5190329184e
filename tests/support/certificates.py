"""Creates an authority and signed certificates for tests with the openssl command."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from klamm.errors import KlammError

__all__ = ["Authority", "OpensslUnavailable"]


class OpensslUnavailable(KlammError):
    """An error that this machine has no openssl command."""


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """An authority that signs certificates, with all files in `folder`. Raises `OpensslUnavailable`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            raise OpensslUnavailable("no openssl on PATH: install it to test TLS")
        self._folder = folder
        self._key = folder / f"{name}.key"
        self.certificate = folder / f"{name}.pem"
        """The authority's certificate, for truststores."""
        config = folder / f"{name}.cnf"
        config.write_text(
            f"[req]\ndistinguished_name=dn\nx509_extensions=ca\nprompt=no\n[dn]\nCN=klamm test {name}\n"
            "[ca]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n"
            "subjectKeyIdentifier=hash\n",
            encoding="ascii",
        )
        self._new_key(self._key)
        _openssl(
            *("req", "-x509", "-new", "-key", str(self._key), "-days", "2"),
            *("-config", str(config), "-out", str(self.certificate)),
        )

    @staticmethod
    def _new_key(path: Path) -> None:
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path))

    def issue(self, name: str, alternative_names: Sequence[str] = (), *, key_password: str | None = None) -> Path:
        """Writes a PEM file with a key (PKCS #8, as Kafka requires) and its certificate, and returns the path.

        Alternative names have a type, as in "DNS:localhost".
        """
        key, request, signed = (self._folder / f"{name}.{suffix}" for suffix in ("key", "csr", "crt"))
        extensions = self._folder / f"{name}.ext"
        names = f"subjectAltName={','.join(alternative_names)}\n" if alternative_names else ""
        extensions.write_text(f"basicConstraints=CA:FALSE\n{names}", encoding="ascii")
        self._new_key(key)
        _openssl("req", "-new", "-key", str(key), "-subj", f"/CN={name}", "-out", str(request))
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(signed)),
        )
        if key_password is not None:
            plain, key = key, self._folder / f"{name}.encrypted.key"
            _openssl(
                *("pkcs8", "-topk8", "-in", str(plain), "-v1", "PBE-SHA1-3DES"),
                *("-passout", f"pass:{key_password}", "-out", str(key)),
            )
        store = self._folder / f"{name}.pem"
        store.write_text(key.read_text(encoding="ascii") + signed.read_text(encoding="ascii"), encoding="ascii")
        return store
