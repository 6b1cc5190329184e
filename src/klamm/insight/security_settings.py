"""librdkafka's properties of TLS and SASL, translated to the keys of klamm's own client.

Those keys are the ones of Kafka's Java client, with PEM files (docs/reference/security-options.md). What that client
can't do as librdkafka does, such as a list of revoked certificates or a mechanism that it doesn't have, is an error.
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
    """Settings that have klamm's client do what librdkafka does with these properties.

    What belongs to neither TLS nor SASL is left out, and so is what `security.protocol` has no use for. Raises
    `ClientConfigError`, without secrets, for what klamm's client can't keep to; what else is wrong, `ClientConfig`
    says.
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
        raise ClientConfigError(f"{_VERIFICATION}: klamm's client talks to nobody whose certificate it can't verify")
    settings = _certificate_of_the_client(properties)
    for key, text in properties.items():
        if key in _SAME_KEYS:
            settings[key] = text
        elif key == "ssl.ca.pem":
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
        elif key == _HOST_NAME:
            settings[key] = "" if text.strip().lower() == "none" else text
        elif key.startswith("ssl.") and key not in _OF_THE_CLIENTS_CERTIFICATE:
            # It narrows whom librdkafka trusts or what it speaks, so it is not to be passed over.
            raise ClientConfigError(f"{key}: klamm's client has nothing like it")
    return settings


def _certificate_of_the_client(properties: Mapping[str, str]) -> dict[str, str]:
    chain = _blocks(properties, "ssl.certificate", "CERTIFICATE")
    key = _blocks(properties, "ssl.key", "PRIVATE KEY")
    settings = {} if chain is None else {"ssl.keystore.certificate.chain": chain}
    settings |= {} if key is None else {"ssl.keystore.key": key}
    return settings | {"ssl.keystore.type": "PEM"} if settings else {}


def _blocks(properties: Mapping[str, str], name: str, label: str) -> str | None:
    """The PEM blocks of that kind in the file or the text of a property; a file may hold the key and its chain."""
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
    # Two names of one property: librdkafka goes by the one that comes last.
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
    """A value in `sasl.jaas.config`."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
