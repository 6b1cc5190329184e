"""Explains a failed TLS handshake and what to check: a certificate, a host name, a listener without TLS."""

from __future__ import annotations

import ssl
from typing import Final

from klamm.client.config import ClientConfig
from klamm.client.errors import AuthenticationFailed, ConnectionFailed
from klamm.client.tls import TlsConfig

__all__ = ["tls_failure"]

# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH.
_OTHER_HOST: Final = (62, 64)
# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
_OTHER_TIME: Final = (9, 10)


def tls_failure(error: OSError, peer: str, config: ClientConfig) -> AuthenticationFailed | ConnectionFailed:
    """Returns the error for a failed handshake: `ConnectionFailed` if a retry may succeed, else
    `AuthenticationFailed`."""
    tls = config.security.tls
    assert tls is not None
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        return AuthenticationFailed(
            f"the certificate of the broker at {peer} is not accepted: {reason}. {_advice(error, tls)}"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(error, ssl.SSLError):
        return ConnectionFailed(
            f"the broker at {peer} ended the TLS handshake: {error}. If it does so each time: is its listener one for "
            f"security.protocol={config.security.protocol}, and does it want a certificate of the client "
            "(ssl.keystore.location)?"
        )
    reason = error.reason or str(error)
    if "ALERT" in reason:
        shown = "the one given" if tls.keystore_location or tls.keystore_key else "none is given"
        return AuthenticationFailed(
            f"the broker at {peer} refused the TLS handshake: {reason}. If it is about the client's certificate: "
            f"ssl.keystore.location names it ({shown})"
        )
    return AuthenticationFailed(
        f"no TLS with the broker at {peer}: {reason}. Is its listener one for security.protocol="
        f"{config.security.protocol}, and do ssl.enabled.protocols and ssl.cipher.suites leave anything in common?"
    )


def _advice(error: ssl.SSLCertVerificationError, tls: TlsConfig) -> str:
    if error.verify_code in _OTHER_HOST:
        return (
            "It is made out to other names: use one of those as the address (bootstrap.servers, and the broker's "
            "advertised.listeners), or leave ssl.endpoint.identification.algorithm empty to check no name"
        )
    if error.verify_code in _OTHER_TIME:
        return "It is not valid today: is the clock of this machine right?"
    source = tls.truststore_location or (
        "ssl.truststore.certificates" if tls.truststore_certificates else "the authorities that this system trusts"
    )
    return (
        f"Neither it nor the authority that signed it is among those trusted ({source}): "
        "ssl.truststore.location names a PEM file with the authority's certificate"
    )
