"""Members of etcd that fail: killed, paused, without majority, of another cluster, restored from a backup."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support.etcd_server import Etcd
from tests.unit.metadata.test_metadata_store import run, watched

from klamm.metadata.etcd.etcd_address import EtcdAddress
from klamm.metadata.etcd.etcd_store import EtcdStore
from klamm.metadata.metadata_store import Change, MetadataStoreError, OutcomeUnknown


def _within(scenario: Coroutine[Any, Any, None]) -> None:
    run(asyncio.wait_for(scenario, 90))


async def _write(store: EtcdStore, key: str) -> int:
    """Writes the key, as often as it takes: a transaction may fail, or have an unknown outcome."""
    while True:
        try:
            return await store.transact({}, [Change(key, b"")])
        except OutcomeUnknown:
            continue
        except MetadataStoreError:
            assert store.valid_until() > 0, "the session goes on"
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_session_survives_its_members(own_etcd: Callable[..., Etcd], fault: str) -> None:
    """The leader of etcd is killed or paused, and then the next leader after the first is back. Both sessions go on,
    and both watches get every commit."""
    etcd = own_etcd(3)

    async def scenario() -> None:
        one = await EtcdStore.open(etcd.address(), session_timeout_s=40)
        two = await EtcdStore.open(etcd.address(), session_timeout_s=40)
        seen = [await watched(one), await watched(two)]
        await one.transact({}, [Change("live/1", b"", is_leased=True)])
        for part in range(2):
            member = await asyncio.to_thread(etcd.leader)
            getattr(member, fault)()
            for number in range(5):
                await _write((one, two)[number % 2], f"k{part}{number}")
            if fault == "kill":
                etcd.launch(member)
            else:
                member.resume()
            await asyncio.to_thread(etcd.wait)
        last = max(await _write(one, "last"), await _write(two, "last"))
        await _write(one, "after")
        while seen[1][-1].revision <= last:  # noqa: ASYNC110 - etcd changes it
            await asyncio.sleep(0.01)
        assert [commit for commit in seen[0] if commit.revision <= last] == [
            commit for commit in seen[1] if commit.revision <= last
        ]
        late = await watched(two)
        assert {"live/1", *(f"k{part}{number}" for part in range(2) for number in range(5))} <= late[0].entries.keys()
        await one.close()
        await two.close()

    _within(scenario())


def test_the_outcome_of_an_unanswered_transaction_is_unknown(own_etcd: Callable[..., Etcd]) -> None:
    """etcd is paused while transactions are on their way. They raise OutcomeUnknown only when they can't happen any
    more, and after the watch has delivered those that happened. Then the session goes on."""
    etcd = own_etcd()
    (member,) = etcd.members

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address(), session_timeout_s=60)
        seen = await watched(store)
        await store.transact({}, [Change("a", b"0")])
        member.pause()
        sent = [asyncio.ensure_future(store.transact({}, [Change(f"k{number}", b"")])) for number in range(5)]
        await asyncio.wait(sent, timeout=7)
        member.resume()
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        assert any(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
        delivered = {key for commit in seen for key in commit.entries}
        late = await EtcdStore.open(etcd.address())
        (content,) = await watched(late)
        assert delivered == content.entries.keys()
        await store.transact({}, [Change("z", b"")])
        await store.close()
        await late.close()

    _within(scenario())


def test_a_session_survives_a_majority_that_is_away_for_short(own_etcd: Callable[..., Etcd]) -> None:
    """Two of three members are paused, so that the third has no leader and refuses calls and watches. When they are
    back before the session's timeout, the session and its watch go on."""
    etcd = own_etcd(3)

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address(), session_timeout_s=60)
        seen = await watched(store)
        await store.transact({}, [Change("a", b"1")])
        for member in etcd.members[:2]:
            member.pause()
        sent = asyncio.ensure_future(_write(store, "b"))
        await asyncio.sleep(5)
        for member in etcd.members[:2]:
            member.resume()
        await sent
        last = await _write(store, "c")
        assert seen[-1].revision == last
        assert store.why_lost is None
        await store.close()

    _within(scenario())


def test_a_lost_majority_ends_the_session(own_etcd: Callable[..., Etcd]) -> None:
    """Without a majority nothing is written, and the session ends. When the majority is back, a new session begins."""
    etcd = own_etcd(3)

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address(), session_timeout_s=3)
        await watched(store)
        lost = asyncio.Event()
        store.on_session_lost(lost.set)
        for member in etcd.members[1:]:
            member.kill()
        await lost.wait()
        with pytest.raises(MetadataStoreError):
            await store.transact({}, [Change("a", b"")])
        await store.close()
        etcd.launch(etcd.members[1])
        await asyncio.to_thread(etcd.wait)
        again = await EtcdStore.open(etcd.address())
        assert await again.transact({"a": 0}, [Change("a", b"")]) > 0
        await again.close()

    _within(scenario())


def test_a_member_of_another_cluster_is_not_used(etcd: Etcd, own_etcd: Callable[..., Etcd]) -> None:
    """If an address leads to a member of another cluster, the session uses the other members, and never this one."""
    stranger = own_etcd()

    async def scenario() -> None:
        both = EtcdAddress(endpoints=(etcd.members[0].endpoint, stranger.members[0].endpoint), prefix="with-a-stranger")
        store = await EtcdStore.open(both)
        stranger.members[0].kill()
        await store.transact({}, [Change("a", b"")])
        first = store.identity.cluster_id
        await store.close()
        own = await EtcdStore.open(etcd.address("with-a-stranger"))
        assert own.identity.cluster_id == first
        (content,) = await watched(own)
        assert content.entries.keys() == {"a"}
        await own.close()

    _within(scenario())


def test_a_restored_etcd_ends_the_session(own_etcd: Callable[..., Etcd]) -> None:
    """When etcd comes back with an older state, the session that has seen a newer one is over."""
    etcd = own_etcd()
    (member,) = etcd.members
    backup = member.folder.parent / "backup"

    async def scenario() -> None:
        first = await EtcdStore.open(etcd.address())
        await first.transact({}, [Change("a", b"1")])
        await first.close()
        member.stop()
        etcd.copy_data(backup)
        await asyncio.to_thread(etcd.start)
        store = await EtcdStore.open(etcd.address(), session_timeout_s=40)
        await watched(store)
        lost = asyncio.Event()
        store.on_session_lost(lost.set)
        for number in range(5):
            await store.transact({}, [Change("a", b"%d" % number)])
        member.kill()
        etcd.restore_data(backup)
        etcd.launch(member)
        await lost.wait()
        assert "restored from a backup" in (store.why_lost or "")
        await store.close()

    _within(scenario())
