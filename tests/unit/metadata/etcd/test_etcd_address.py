"""Tests the URL of a metadata store in etcd."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.metadata.etcd.etcd_address import EtcdAddress, InvalidEtcdUrl


def test_hosts_ports_and_a_prefix() -> None:
    """Hosts are separated by commas; a port is 2379 unless it is given, and the prefix is klamm."""
    assert EtcdAddress.parse("etcd://a:1,b,[::1]:3,[fe80::1]/prod/klamm/") == EtcdAddress(
        endpoints=("a:1", "b:2379", "[::1]:3", "[fe80::1]:2379"), prefix="prod/klamm"
    )
    assert EtcdAddress.parse("etcd://a").key_prefix == b"/klamm/"


def test_tls_and_a_user() -> None:
    """A URL with etcds has TLS; files for certificates and the password are named as parameters."""
    address = EtcdAddress.parse("etcds://an%40n@a/p?ca=/ca&cert=c&key=k&password-file=/pw")
    assert address == EtcdAddress(
        endpoints=("a:2379",),
        prefix="p",
        is_encrypted=True,
        ca_file=Path("/ca"),
        certificate_file=Path("c"),
        key_file=Path("k"),
        user="an@n",
        password_file=Path("/pw"),
    )
    assert str(address) == "etcds://a:2379/p"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://a/p", "begins with etcd://"),
        ("etcd:///p", "HOST:PORT is expected"),
        ("etcd://a:0/p", "HOST:PORT is expected"),
        ("etcd://a:70000/p", "HOST:PORT is expected"),
        ("etcd://a,,b/p", "HOST:PORT is expected"),
        ("etcd://a/.p", "the prefix"),
        ("etcd://a/p q", "the prefix"),
        ("etcd://a/p?ca=/x", "needs etcds://"),
        ("etcds://a/p?cert=/x", "cert and key together"),
        ("etcd://a/p?tls=1", "it takes ca, cert, key, password-file"),
        ("etcd://me:secret@a/p", "write it to a file"),
        ("etcd://me@a/p", "a user and password-file together"),
    ],
)
def test_a_wrong_url_is_explained(url: str, reason: str) -> None:
    """The message names what is wrong, and never a password."""
    with pytest.raises(InvalidEtcdUrl, match=reason) as raised:
        EtcdAddress.parse(url)
    assert "secret" not in str(raised.value)
