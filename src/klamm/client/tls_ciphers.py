"""`ssl.cipher.suites`: translates the names of suites in the standards and in Java to OpenSSL's names.

Suites of TLSv1.2 are chosen one by one. Python's ssl offers the suites of TLSv1.3 only as a set: all or none.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Final

from klamm.client.errors import ClientConfigError

__all__ = ["CipherChoice", "parse_cipher_suites"]

_KEY: Final = "ssl.cipher.suites"
_OF_TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


@dataclass(frozen=True, slots=True)
class CipherChoice:
    """Suites of TLSv1.2 by OpenSSL's names, and the protocols that the chosen suites belong to."""

    openssl_names: tuple[str, ...]
    protocols: tuple[str, ...]

    def apply_to(self, context: ssl.SSLContext) -> None:
        """Restricts a context to the choice."""
        if self.openssl_names:
            context.set_ciphers(":".join(self.openssl_names))


def parse_cipher_suites(text: str, protocols: tuple[str, ...]) -> CipherChoice | None:
    """Parses a comma-separated list of suites of the enabled protocols. Returns None for an empty list: all suites.

    Raises `ClientConfigError` for suites that OpenSSL does not have and for a choice that Python's ssl does not
    support.
    """
    suites = list(filter(None, (part.strip() for part in text.split(","))))
    if not suites:
        return None
    newer = [suite for suite in suites if suite in _OF_TLS_1_3]
    older = [suite for suite in suites if suite not in _OF_TLS_1_3]
    if newer and "TLSv1.3" in protocols and set(newer) != set(_OF_TLS_1_3):
        raise ClientConfigError(
            f"{_KEY}: Python's ssl can't choose among the suites of TLSv1.3: name all of {', '.join(_OF_TLS_1_3)}, or "
            "none of them, which leaves TLSv1.2"
        )
    named = {"TLSv1.2": older, "TLSv1.3": newer}
    chosen = tuple(protocol for protocol in protocols if named[protocol])
    if not chosen:
        raise ClientConfigError(f"{_KEY}: none of the suites belongs to an enabled protocol ({', '.join(protocols)})")
    names = tuple(_openssl_name(suite) for suite in older)
    _require_known(older, names)
    return CipherChoice(names, chosen)


def _openssl_name(suite: str) -> str:
    exchange, separator, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not separator:
        raise ClientConfigError(f"{_KEY}: {suite!r} is not the name of a suite, like {_OF_TLS_1_3[0]}")
    cipher = re.sub(r"\b(AES|ARIA|CAMELLIA)_(\d+)", r"\1\2", cipher.replace("_CBC_", "_"))
    if cipher.startswith("CHACHA20"):
        cipher = cipher.removesuffix("_SHA256")
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")


def _require_known(suites: list[str], names: tuple[str, ...]) -> None:
    for suite, name in zip(suites, names, strict=True):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise ClientConfigError(f"{_KEY}: OpenSSL has no suite {suite} here") from None
