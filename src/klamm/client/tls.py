"""TLS by Kafka's keys `ssl.…`: a truststore and a keystore, both in PEM form, protocols, ciphers, and the checks.

The rules are those of `org.apache.kafka.common.security.ssl.DefaultSslEngineFactory`. Java's own stores (JKS, PKCS12)
can be opened by Java only; the error that refuses them names the command that converts them.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from klamm.client.errors import ClientConfigError
from klamm.client.password import Password
from klamm.client.tls_ciphers import CipherChoice, parse_cipher_suites

__all__ = ["TlsConfig", "parse_tls", "tls_context"]

_logger = logging.getLogger(__name__)

_PEM: Final = "PEM"
_PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OUTDATED: Final = ("TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello", "SSLv2")
# Like Kafka's PemParser: ignores text around the blocks, and accepts blanks instead of line ends.
_BLOCK: Final = re.compile(
    r"-+BEGIN\s+(?P<label>[A-Z0-9 ]*?(?:CERTIFICATE|PRIVATE\s+KEY))[^-]*-+\s+"
    r"(?P<body>[A-Za-z0-9/+=\s]*?)-+END\s[^-]*-+"
)
_CONVERSION: Final = {
    "ssl.truststore": "keytool -list -rfc -keystore STORE > truststore.pem",
    "ssl.keystore": "keytool -importkeystore -srckeystore STORE -destkeystore keystore.p12 -deststoretype PKCS12, then "
    "openssl pkcs12 -in keystore.p12 -out keystore.pem",
}


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The settings of a TLS context; certificates and keys are PEM text or the paths of PEM files."""

    truststore_location: str | None = None
    """None: `truststore_certificates`, or else the authorities that the system trusts."""
    truststore_certificates: str | None = field(default=None, repr=False)
    keystore_location: str | None = None
    """One file with the key and its certificate chain; None: `keystore_key` and its chain, or else no client
    certificate."""
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    keystore_key: Password | None = None
    key_password: Password | None = None
    check_hostname: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: CipherChoice | None = None


def parse_tls(given: Mapping[str, str]) -> TlsConfig:
    """Returns the TLS settings of Kafka's keys `ssl.…`. Raises `ClientConfigError`."""
    truststore_location, certificates = _truststore(given)
    keystore_location, chain, key = _keystore(given)
    protocols = _protocols(given)
    ciphers = parse_cipher_suites(given.get("ssl.cipher.suites", ""), protocols)
    config = TlsConfig(
        truststore_location=truststore_location,
        truststore_certificates=certificates,
        keystore_location=keystore_location,
        keystore_certificate_chain=chain,
        keystore_key=key,
        key_password=_password(given, "ssl.key.password"),
        check_hostname=_check_hostname(given),
        protocols=protocols if ciphers is None else ciphers.protocols,
        ciphers=ciphers,
    )
    tls_context(config)  # Reports a bad file or key now, not at the first connection.
    return config


def _truststore(given: Mapping[str, str]) -> tuple[str | None, str | None]:
    location, certificates = given.get("ssl.truststore.location"), given.get("ssl.truststore.certificates")
    if (authorities := given.get("ssl.ca.location")) is not None:
        if location is not None or certificates is not None:
            raise ClientConfigError("ssl.ca.location is librdkafka's key for ssl.truststore.location: give one of them")
        return authorities, None
    if location is None and certificates is None:
        if "ssl.truststore.password" in given:
            raise ClientConfigError("ssl.truststore.password is given, but no ssl.truststore.location")
        return None, None
    _require_pem(given, "ssl.truststore")
    if location is not None and certificates is not None:
        raise ClientConfigError("ssl.truststore.location and ssl.truststore.certificates are both given: give one")
    return location, certificates


def _keystore(given: Mapping[str, str]) -> tuple[str | None, str | None, Password | None]:
    location = given.get("ssl.keystore.location")
    chain, key = given.get("ssl.keystore.certificate.chain"), _password(given, "ssl.keystore.key")
    if location is None and chain is None and key is None:
        if "ssl.keystore.password" in given:
            raise ClientConfigError("ssl.keystore.password is given, but no ssl.keystore.location")
        return None, None, None
    _require_pem(given, "ssl.keystore")
    if location is not None and (chain is not None or key is not None):
        raise ClientConfigError("ssl.keystore.location and ssl.keystore.key are both given: give one of them")
    if location is None and chain is None:
        raise ClientConfigError("ssl.keystore.key is given, but no ssl.keystore.certificate.chain")
    if location is None and key is None:
        raise ClientConfigError("ssl.keystore.certificate.chain is given, but no ssl.keystore.key")
    return location, chain, key


def _require_pem(given: Mapping[str, str], store: str) -> None:
    kind = given.get(f"{store}.type", "JKS").strip()
    if kind.upper() != _PEM:
        missing = "" if f"{store}.type" in given else " (what it is when it isn't given)"
        raise ClientConfigError(
            f"{store}.type={kind}{missing}: only PEM is supported, since Java's stores need Java to be opened. Set "
            f"{store}.type=PEM for a PEM file, or convert the store once: {_CONVERSION[store]}; the guide "
            '"Connect Spark with TLS and SASL" (docs/how-to/connect-spark-with-tls.md) goes through it'
        )
    if f"{store}.password" in given:
        instead = "; ssl.key.password opens its key" if store == "ssl.keystore" else ""
        raise ClientConfigError(f"{store}.password: a store in PEM form has no password{instead}")


def _password(given: Mapping[str, str], key: str) -> Password | None:
    return Password(given[key]) if key in given else None


def _check_hostname(given: Mapping[str, str]) -> bool:
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https").strip()
    if algorithm.lower() not in ("https", ""):
        raise ClientConfigError(
            f"ssl.endpoint.identification.algorithm={algorithm}: it is https, or empty for brokers whose certificate "
            "doesn't name their host"
        )
    return bool(algorithm)


def _protocols(given: Mapping[str, str]) -> tuple[str, ...]:
    # Java creates its context by this name, then enables ssl.enabled.protocols: the name matters only if it is invalid.
    name = given.get("ssl.protocol", "TLSv1.3").strip()
    if name != "TLS" and name not in _PROTOCOLS:
        raise ClientConfigError(f"ssl.protocol={name}: it is TLS, TLSv1.2 or TLSv1.3")
    text = given.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
    names = list(filter(None, (part.strip() for part in text.split(","))))
    if unknown := [name for name in names if name not in _PROTOCOLS and name not in _OUTDATED]:
        raise ClientConfigError(f"ssl.enabled.protocols={text}: there is no protocol {unknown[0]}")
    if dropped := [name for name in names if name in _OUTDATED]:
        _logger.warning("ssl.enabled.protocols: %s is not used, as under any recent Java", ", ".join(dropped))
    protocols = tuple(name for name in _PROTOCOLS if name in names)
    if not protocols:
        raise ClientConfigError(f"ssl.enabled.protocols={text}: at least one of TLSv1.2 and TLSv1.3 is needed")
    return protocols


def tls_context(config: TlsConfig) -> ssl.SSLContext:
    """Returns the context for these settings, cached until one of its files changes. Raises `ClientConfigError`."""
    return _context(config, _modified(config.truststore_location), _modified(config.keystore_location))


def _modified(path: str | None) -> int:
    try:
        return 0 if path is None else os.stat(path).st_mtime_ns
    except OSError:
        return 0  # Reading the file reports the error.


@lru_cache(maxsize=16)
def _context(config: TlsConfig, _trust_modified: int, _key_modified: int) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED
    # Java trusts every certificate in the truststore, also an intermediate authority's or the broker's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version = _PROTOCOLS[config.protocols[0]]
    context.maximum_version = _PROTOCOLS[config.protocols[-1]]
    if config.ciphers is not None:
        config.ciphers.apply_to(context)
    _load_truststore(context, config)
    _load_keystore(context, config)
    return context


def _load_truststore(context: ssl.SSLContext, config: TlsConfig) -> None:
    if config.truststore_location is not None:
        key, text = "ssl.truststore.location", _read("ssl.truststore.location", config.truststore_location)
    elif config.truststore_certificates is not None:
        key, text = "ssl.truststore.certificates", config.truststore_certificates
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    certificates = b"".join(body for label, body in _blocks(key, text) if label.endswith("CERTIFICATE"))
    if not certificates:
        raise ClientConfigError(f"{key}: there is no certificate in it, no -----BEGIN CERTIFICATE-----")
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        raise ClientConfigError(f"{key}: a certificate can't be read ({error.reason or error})") from None


def _load_keystore(context: ssl.SSLContext, config: TlsConfig) -> None:
    if config.keystore_location is not None:
        key, text = "ssl.keystore.location", _read("ssl.keystore.location", config.keystore_location)
    elif config.keystore_key is not None and config.keystore_certificate_chain is not None:
        key, text = "ssl.keystore.key", f"{config.keystore_key.value}\n{config.keystore_certificate_chain}"
    else:
        return
    blocks = list(_blocks(key, text))
    private_keys = [label for label, _ in blocks if label.endswith("KEY")]
    if len(private_keys) != 1 or len(blocks) < 2:
        raise ClientConfigError(
            f"{key}: one private key and the certificates of its chain are needed; there are {len(private_keys)} and "
            f"{len(blocks) - len(private_keys)}"
        )
    if private_keys[0] == "ENCRYPTED PRIVATE KEY" and config.key_password is None:
        raise ClientConfigError("ssl.key.password is missing: the private key is encrypted")
    password = "" if config.key_password is None else config.key_password.value
    with _private_file("".join(_pem(label, body) for label, body in blocks)) as path:
        try:
            # Without a password OpenSSL would prompt at the terminal.
            context.load_cert_chain(path, password=lambda: password)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None)
            raise ClientConfigError(
                f"{key}: the private key can't be used{f' ({reason})' if reason else ''}: is ssl.key.password right, "
                "and do key and certificate belong together?"
            ) from None


def _read(key: str, path: str) -> str:
    try:
        with open(path, encoding="latin-1") as file:
            return file.read()
    except OSError as error:
        raise ClientConfigError(
            f"{key}={path} can't be read: {error.strerror}. It has to be there on every machine that runs a part of "
            "the query"
        ) from None


def _blocks(key: str, text: str) -> Iterator[tuple[str, bytes]]:
    """Yields the label and the bytes of each block."""
    for match in _BLOCK.finditer(text):
        try:
            body = base64.b64decode("".join(match["body"].split()), validate=True)
        except binascii.Error:
            raise ClientConfigError(f"{key}: a block in it is no base64") from None
        yield " ".join(match["label"].split()), body


def _pem(label: str, body: bytes) -> str:
    encoded = base64.encodebytes(body).decode()
    return f"-----BEGIN {label}-----\n{encoded}-----END {label}-----\n"


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Yields a temporary file's path, since Python's ssl takes keys from files only. In memory where possible
    (Linux)."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("klamm-key")
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile("w", encoding="ascii", prefix="klamm-key-") as named:
        named.write(text)
        named.flush()
        yield named.name
