"""Translates librdkafka's properties of TLS and SASL to the keys of klamm's own client.

These keys are those of Kafka's Java client, with PEM files (docs/reference/security-options.md). A property that
klamm's client does not support is an error, for example a list of revoked certificates or an unknown mechanism.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from klamm.client.errors import ClientConfigError

__all__ = ["security_settings"]

_PROTOCOL: Final = "security.protocol"
_WITH_TLS: Final = ("SSL", "SASL_SSL")
_WITH_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_VERIFICATION: Final = "enable.ssl.certificate.verification"
_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")
_HOST_NAME: Final = "ssl.endpoint.identification.algorithm"
_SAME_KEYS: Final = ("ssl.ca.location", "ssl.key.password")
_OF_THE_CLIENTS_CERTIFICATE: Final = (
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
)
_BLOCK: Final = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.*?-----END (?P=label)-----", re.DOTALL)


def security_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns settings that make klamm's client do what librdkafka does with these properties.

    Leaves out properties that belong to neither TLS nor SASL, and those that `security.protocol` does not use. Raises
    `ClientConfigError`, without secrets, for properties that klamm's client does not support. `ClientConfig` reports
    other errors.
    """
    protocol = properties.get(_PROTOCOL, "PLAINTEXT").strip().upper()
    settings = {_PROTOCOL: protocol}
    if protocol in _WITH_TLS:
        settings |= _tls_settings(properties)
    if protocol in _WITH_SASL:
        settings |= _sasl_settings(properties)
    return settings


def _tls_settings(properties: Mapping[str, str]) -> dict[str, str]:
    if properties.get(_VERIFICATION, "true").strip().lower() != "true":
        raise ClientConfigError(
            f"{_VERIFICATION}: klamm's client does not talk to a broker whose certificate it can't verify"
        )
    settings = _certificate_of_the_client(properties)
    for key, text in properties.items():
        if key in _SAME_KEYS:
            settings[key] = text
        elif key == "ssl.ca.pem":
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
        elif key == _HOST_NAME:
            settings[key] = "" if text.strip().lower() == "none" else text
        elif key.startswith("ssl.") and key not in _OF_THE_CLIENTS_CERTIFICATE:
            # The property restricts librdkafka's peers or protocols. Ignoring it would be less secure.
            raise ClientConfigError(f"{key}: klamm's client has nothing like it")
    return settings


def _certificate_of_the_client(properties: Mapping[str, str]) -> dict[str, str]:
    chain = _blocks(properties, "ssl.certificate", "CERTIFICATE")
    key = _blocks(properties, "ssl.key", "PRIVATE KEY")
    settings = {} if chain is None else {"ssl.keystore.certificate.chain": chain}
    settings |= {} if key is None else {"ssl.keystore.key": key}
    return settings | {"ssl.keystore.type": "PEM"} if settings else {}


def _blocks(properties: Mapping[str, str], name: str, label: str) -> str | None:
    """Returns the PEM blocks of one kind in a property's file or text. A file may hold both the key and its chain."""
    text = properties.get(f"{name}.pem")
    location = properties.get(f"{name}.location")
    if text is None and location is not None:
        try:
            text = Path(location).read_text("latin-1")
        except OSError as error:
            raise ClientConfigError(f"{name}.location={location} can't be read: {error.strerror}") from None
    if text is None:
        return None
    return "\n".join(block[0] for block in _BLOCK.finditer(text) if block["label"].endswith(label))


def _sasl_settings(properties: Mapping[str, str]) -> dict[str, str]:
    # The property has two names. librdkafka uses the one that comes last.
    mechanism = "GSSAPI"
    for key, text in properties.items():
        mechanism = text.strip() if key in _MECHANISM else mechanism
    module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    username, password = (_quoted(properties.get(key, "")) for key in ("sasl.username", "sasl.password"))
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required username={username} password={password};",
    }


def _quoted(text: str) -> str:
    """Returns a value with quotes and escapes for `sasl.jaas.config`."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
