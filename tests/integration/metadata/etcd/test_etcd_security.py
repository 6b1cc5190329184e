"""TLS with client certificates, and users with passwords and tokens that expire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.certificates import Authority, OpensslUnavailable
from tests.support.etcd_server import Etcd
from tests.support.etcd_users import authenticate_users
from tests.support.toolchains import toolchain_is_missing
from tests.unit.metadata.test_metadata_store import run, watched

from klamm.metadata.etcd.etcd_address import EtcdAddress
from klamm.metadata.etcd.etcd_store import EtcdStore
from klamm.metadata.metadata_store import Change, MetadataStoreError


def test_a_store_over_tls(own_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    """etcd requires a client certificate: with it and with the authority's certificate the store works; without a
    certificate, or without TLS, it can't be opened."""
    try:
        authority = Authority(tmp_path)
    except OpensslUnavailable as error:
        toolchain_is_missing("openssl", str(error))
    server, client = authority.issue("server", ["IP:127.0.0.1"]), authority.issue("client")
    etcd = own_etcd(
        is_encrypted=True,
        options=[
            f"--cert-file={server}",
            f"--key-file={server.with_suffix('.key')}",
            f"--trusted-ca-file={authority.certificate}",
            "--client-cert-auth",
        ],
        url_query=f"ca={authority.certificate}&cert={client}&key={client.with_suffix('.key')}",
    )

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address())
        await watched(store)
        assert await store.transact({"a": 0}, [Change("a", b"1")]) > 0
        await store.close()
        endpoint = etcd.members[0].endpoint
        for url in (f"etcds://{endpoint}/test?ca={authority.certificate}", f"etcd://{endpoint}/test"):
            with pytest.raises(MetadataStoreError, match="can't be reached"):
                await EtcdStore.open(EtcdAddress.parse(url), connect_timeout_s=1)

    run(scenario())


def test_a_store_with_users(own_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    """etcd authenticates users, whose role permits the keys of the prefix, and its tokens expire at once: the session
    and its watch go on with new tokens. A wrong password is refused with etcd's reason."""
    etcd = own_etcd(options=["--auth-token-ttl=2"])
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "wrong").write_text("guess\n")
    authenticate_users(etcd.call, "ann", "secret", prefix="test")

    def address(user: str, file: str) -> EtcdAddress:
        return EtcdAddress.parse(f"{etcd.url(user=user)}?password-file={tmp_path / file}")

    async def scenario() -> None:
        store = await EtcdStore.open(address("ann@", "password"), session_timeout_s=6)
        seen = await watched(store)
        await store.transact({}, [Change("live/1", b"", is_leased=True)])
        await asyncio.sleep(5)
        last = await store.transact({"a": 0}, [Change("a", b"1")])
        assert seen[-1].revision == last
        await store.close()
        with pytest.raises(MetadataStoreError, match="authentication failed"):
            await EtcdStore.open(address("ann@", "wrong"))
        with pytest.raises(MetadataStoreError):
            await EtcdStore.open(etcd.address(), connect_timeout_s=1)

    run(scenario())


def test_a_user_who_may_not_read_an_outer_prefix(own_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    """The start asks for a store that has the first part of the prefix as its own. A user whose role does not permit
    to read it there opens the store all the same."""
    etcd = own_etcd()
    (tmp_path / "password").write_text("secret")
    authenticate_users(etcd.call, "ann", "secret", prefix="outer/inner")

    async def scenario() -> None:
        url = f"{etcd.url('outer/inner', user='ann@')}?password-file={tmp_path / 'password'}"
        store = await EtcdStore.open(EtcdAddress.parse(url))
        await store.transact({}, [Change("a", b"1")])
        await store.close()

    run(scenario())
