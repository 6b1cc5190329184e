"""The metadata store in etcd: the contract of all stores, limits, and what happens to transactions when etcd fails."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest
from tests.support.cut_proxy import CutProxy
from tests.support.etcd_server import Etcd
from tests.support.metadata_sessions import assert_a_session_catches_up
from tests.unit.metadata.test_metadata_store import (  # noqa: F401 - the contract, run with this module's `open_store`
    OpenStore,
    run,
    test_a_closed_store_refuses,
    test_a_leased_key_that_was_removed_is_not_removed_again,
    test_a_session_is_valid_until_it_is_closed,
    test_a_transaction_needs_all_its_conditions,
    test_a_watcher_gets_the_content_and_then_every_commit,
    test_leased_keys_end_with_the_session,
    test_racing_transactions_are_ordered,
    watched,
)

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.etcd import etcd_warnings
from klamm.metadata.etcd.etcd_address import EtcdAddress
from klamm.metadata.etcd.etcd_client import RANGE, EtcdClient, Method
from klamm.metadata.etcd.etcd_store import EtcdStore
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStoreError, OutcomeUnknown
from klamm.metadata.service import MetadataService
from klamm.session_clock import session_time

_REVOKE: Final = Method("/etcdserverpb.Lease/LeaseRevoke", messages.LeaseRevokeResponse, messages.LeaseRevokeRequest)


def _within(scenario: Coroutine[Any, Any, None], seconds: float = 60) -> None:
    run(asyncio.wait_for(scenario, seconds))


@pytest.fixture
def open_store(etcd: Etcd, prefix: str) -> OpenStore:
    """Returns a function that opens sessions with one prefix."""
    return lambda: EtcdStore.open(etcd.address(prefix))


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds; the test's own limit ends the waiting."""
    while not condition():  # noqa: ASYNC110 - etcd changes it
        await asyncio.sleep(0.01)


def test_two_sessions_see_each_other(open_store: OpenStore) -> None:
    """Both sessions see all commits in one order, and after a failed condition the commit that caused it."""

    async def scenario() -> None:
        one, two = await open_store(), await open_store()
        seen = [await watched(one), await watched(two)]
        for number in range(20):
            writer = (one, two)[number % 2]
            revision = await writer.transact({}, [Change(f"k{number % 7}", b"\xff%d" % number)])
            assert seen[number % 2][-1].revision == revision
        last = await one.transact({}, [Change("k0", None)])
        with pytest.raises(ConditionFailed):
            await two.transact({"k0": last - 1}, [])
        assert seen[1][-1] == Commit(last, {"k0": None})
        assert seen[0] == seen[1]
        await one.close()
        await two.close()

    _within(scenario())


def test_a_closed_session_takes_its_leased_keys_with_it(open_store: OpenStore) -> None:
    """Other sessions see that the leased keys of a closed session go, and that other keys stay."""

    async def scenario() -> None:
        one, two = await open_store(), await open_store()
        seen = await watched(two)
        await one.transact({}, [Change("live/1", b"", is_leased=True), Change("brokers/1", b"")])
        await one.close()
        await two.transact({}, [Change("after", b"")])
        assert [set(commit.entries) for commit in seen[1:]] == [{"live/1", "brokers/1"}, {"live/1"}, {"after"}]
        await two.close()

    _within(scenario())


def test_a_session_catches_up(open_store: OpenStore) -> None:
    """After it has caught up, its watcher knows a commit that another session had made before."""
    _within(assert_a_session_catches_up(open_store))


def test_a_session_catches_up_next_to_other_users_of_etcd(etcd: Etcd, prefix: str) -> None:
    """The latest revision of etcd may be of keys that are not the session's, of which it never hears. It catches up all
    the same, again and again, and no watcher sees how."""

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address(prefix))
        other = await EtcdStore.open(etcd.address(f"{prefix}0"))
        seen = await watched(store)
        for _ in range(3):
            await other.transact({}, [Change("a", b"")])
            await store.catch_up()
            await store.catch_up()
        assert len(seen) == 1
        await store.close()
        await other.close()

    _within(scenario())


def test_a_second_watch_gets_the_content_too(open_store: OpenStore) -> None:
    """Each watch of a session begins with the content of its time, and then both get every commit."""

    async def scenario() -> None:
        store = await open_store()
        first = await watched(store)
        one = await store.transact({}, [Change("a", b"1")])
        second = await watched(store)
        two = await store.transact({}, [Change("a", b"2")])
        assert [commit.revision for commit in first[1:]] == [one, two]
        assert [commit.revision for commit in second] == [one, two]
        await store.close()

    _within(scenario())


def test_a_transaction_has_etcds_limits(open_store: OpenStore) -> None:
    """A transaction with `maximum_operations` changes and conditions is accepted. One that is larger than etcd's limit
    for requests is refused with the largest key in the message, and changes nothing."""

    async def scenario() -> None:
        store = await open_store()
        limit = store.maximum_operations
        assert limit is not None
        keys = [f"k{number}" for number in range(limit)]
        revision = await store.transact(dict.fromkeys(keys, 0), [Change(key, b"v") for key in keys])
        await store.transact(dict.fromkeys(keys, revision), [Change(key, None) for key in keys])
        seen = await watched(store)
        await store.transact({}, [Change("large", bytes(1_500_000))])
        with pytest.raises(MetadataStoreError, match="its largest value is larger with 1600000 bytes"):
            await store.transact({}, [Change("small", b""), Change("larger", bytes(1_600_000))])
        assert len(seen) == 2
        await store.close()

    _within(scenario())


def test_the_content_is_read_in_pages(open_store: OpenStore) -> None:
    """A store with more keys than a page has is read completely, in order."""

    async def scenario() -> None:
        store = await open_store()
        keys = [f"k/{number:05}" for number in range(4500)]
        for start in range(0, len(keys), 100):
            await store.transact({}, [Change(key, b"v") for key in keys[start : start + 100]])
        (content,) = await watched(store)
        assert list(content.entries) == keys
        await store.close()

    _within(scenario())


@pytest.mark.parametrize("key", ["unfinished", "kind-of-a-later-version/1"])
def test_content_that_is_not_understood_ends_the_session(open_store: OpenStore, key: str) -> None:
    """A broker neither waits for a store that it must not use, nor goes on when it becomes such a store."""

    async def scenario() -> None:
        writer, running = await open_store(), await open_store()
        await MetadataService.open(running, BrokerConfig())
        is_lost = asyncio.Event()
        running.on_session_lost(is_lost.set)
        await writer.transact({}, [Change(key, b"{}")])
        await is_lost.wait()
        starting = await open_store()
        with pytest.raises(MetadataStoreError, match=r"is not complete|has an entry of the unknown kind"):
            await MetadataService.open(starting, BrokerConfig())
        for store in (starting, running, writer):
            await store.close()

    _within(scenario())


def test_prefixes_are_separate(etcd: Etcd, prefix: str) -> None:
    """A store does not see the keys of a prefix that begins with its own prefix."""

    async def scenario() -> None:
        one = await EtcdStore.open(etcd.address(prefix))
        two = await EtcdStore.open(etcd.address(f"{prefix}0"))
        seen = await watched(one)
        await two.transact({}, [Change("a", b"")])
        await one.transact({}, [Change("b", b"")])
        assert [set(commit.entries) for commit in seen] == [set(), {"b"}]
        await one.close()
        await two.close()

    _within(scenario())


@pytest.mark.parametrize("inner", ["restored", "deep/er"])
def test_a_prefix_within_the_prefix_of_another_store_is_refused(etcd: Etcd, prefix: str, inner: str) -> None:
    """The brokers of the outer store would read the keys of the inner one as their own, and end with an error."""

    async def scenario() -> None:
        outer = await EtcdStore.open(etcd.address(prefix))
        await MetadataService.open(outer, BrokerConfig())
        lone = await EtcdStore.open(etcd.address(f"{prefix}/{inner}"))  # there is no outer store so far
        await lone.close()
        await outer.transact({}, [Change("cluster", b'{"id":"MkU3OEVBNTcwNTJENDM2Qk"}')])
        with pytest.raises(MetadataStoreError, match=f"prefix '{prefix}/{inner}' is within the prefix '{prefix}'"):
            await EtcdStore.open(etcd.address(f"{prefix}/{inner}"))
        assert outer.why_lost is None
        await outer.close()

    _within(scenario())


def test_a_watch_resumes_after_a_restart(own_etcd: Callable[..., Etcd]) -> None:
    """etcd is killed and started again: the session goes on, and the watch misses nothing."""
    etcd = own_etcd()

    async def scenario() -> None:
        one = await EtcdStore.open(etcd.address(), session_timeout_s=30)
        seen = await watched(one)
        await one.transact({}, [Change("a", b"1", is_leased=True), Change("b", b"1")])
        await asyncio.to_thread(etcd.restart)
        two = await EtcdStore.open(etcd.address())
        await two.transact({}, [Change("b", None)])
        await until(lambda: seen[-1].entries.get("b", ...) is None)
        last = await one.transact({}, [Change("c", b"")])
        assert seen[-1].revision == last
        assert len(seen) == 4
        await one.close()
        await two.close()

    _within(scenario())


def through(proxy: CutProxy, etcd: Etcd) -> EtcdAddress:
    """Returns the address of a store behind a proxy."""
    return dataclasses.replace(etcd.address(), endpoints=(proxy.endpoint,))


def test_nothing_is_missed_when_etcd_compacts_while_the_watch_is_away(own_etcd: Callable[..., Etcd]) -> None:
    """Keys are changed, created and deleted while the watch is cut off, and etcd compacts these revisions: the watch
    delivers the difference as one commit, with the deletions."""
    etcd = own_etcd()

    async def scenario(proxy: CutProxy) -> None:
        store = await EtcdStore.open(through(proxy, etcd), session_timeout_s=30)
        seen = await watched(store)
        await store.transact({}, [Change(key, b"1") for key in ("changed", "deleted", "same", "again")])
        proxy.cut()
        other = await EtcdStore.open(etcd.address())
        await other.transact({}, [Change("changed", b"2"), Change("deleted", None), Change("again", None)])
        await other.transact({}, [Change("new", b"1"), Change("again", b"2"), Change("gone", b"1")])
        last = await other.transact({}, [Change("gone", None)])
        await asyncio.to_thread(etcd.compact)
        proxy.heal()
        await until(lambda: len(seen) == 3)
        commit = seen[-1]
        assert {key: entry and entry.value for key, entry in commit.entries.items()} == {
            "changed": b"2",
            "deleted": None,
            "new": b"1",
            "again": b"2",
        }
        assert commit.revision > last
        await store.close()
        await other.close()

    with CutProxy(etcd.members[0].port) as proxy:
        _within(scenario(proxy))


def test_a_transaction_whose_answer_is_lost_has_an_unknown_outcome(own_etcd: Callable[..., Etcd]) -> None:
    """A transaction that happened and whose answer is lost raises OutcomeUnknown, after the watch has delivered it.
    Later transactions of the session succeed."""
    etcd = own_etcd()

    async def scenario(proxy: CutProxy) -> None:
        store = await EtcdStore.open(through(proxy, etcd), session_timeout_s=60)
        seen = await watched(store)
        await store.transact({}, [Change("a", b"0")])
        other = await EtcdStore.open(etcd.address())
        seen_by_other = await watched(other)
        proxy.lose_answers()
        sent = asyncio.ensure_future(store.transact({}, [Change("b", b"1")]))
        await until(lambda: "b" in seen_by_other[-1].entries)
        proxy.heal()
        with pytest.raises(OutcomeUnknown):
            await sent
        assert seen[-1].entries.keys() == {"b"}
        assert await store.transact({"b": seen[-1].revision}, [Change("b", b"2")]) == seen[-1].revision
        await store.close()
        await other.close()

    with CutProxy(etcd.members[0].port) as proxy:
        _within(scenario(proxy))


def test_an_unknown_outcome_of_a_session_whose_lease_has_ended(own_etcd: Callable[..., Etcd]) -> None:
    """The process was paused for longer than its lease, for example, while a transaction was in progress. The outcome
    is unknown as before, also if an earlier outcome of the session was unknown, and the session has ended."""
    etcd = own_etcd()

    def end_lease() -> None:
        fences = messages.RangeRequest(key=b"/test/.fences/", range_end=b"/test/.fences0")
        (fence,) = etcd.call(RANGE, fences).kvs
        etcd.call(_REVOKE, messages.LeaseRevokeRequest(ID=int(fence.key.rpartition(b"/")[2], 16)))

    async def scenario(proxy: CutProxy) -> None:
        store = await EtcdStore.open(through(proxy, etcd), session_timeout_s=60)
        lost = asyncio.Event()
        store.on_session_lost(lost.set)
        await watched(store)
        other = await EtcdStore.open(etcd.address())
        seen_by_other = await watched(other)

        async def lose_the_answer(key: str, then: Callable[[], None] = lambda: None) -> None:
            proxy.lose_answers()
            sent = asyncio.ensure_future(store.transact({}, [Change(key, b"1")]))
            await until(lambda: key in seen_by_other[-1].entries)
            await asyncio.to_thread(then)
            proxy.heal()
            with pytest.raises(OutcomeUnknown):
                await sent

        await lose_the_answer("a")
        await lose_the_answer("b", end_lease)
        await lost.wait()
        await store.close()
        await other.close()

    with CutProxy(etcd.members[0].port) as proxy:
        _within(scenario(proxy))


def test_a_session_is_lost_when_etcd_does_not_answer(own_etcd: Callable[..., Etcd]) -> None:
    """When keep-alives are not answered, the session ends before etcd can end it: its callback is called once, and it
    refuses every transaction. Another session then sees that the leased keys go."""
    etcd = own_etcd()
    (member,) = etcd.members

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address(), session_timeout_s=6)
        await store.transact({}, [Change("live/1", b"", is_leased=True)])
        lost = asyncio.Event()
        calls: list[float] = []

        def note() -> None:
            calls.append(session_time())
            lost.set()

        store.on_session_lost(note)
        member.pause()
        valid_until = store.valid_until()
        await lost.wait()
        assert store.valid_until() < session_time()
        assert valid_until <= calls[0]
        member.resume()
        with pytest.raises(MetadataStoreError):
            await store.transact({}, [Change("a", b"")])
        other = await EtcdStore.open(etcd.address())
        seen = await watched(other)
        await until(lambda: seen[-1].entries.get("live/1") is None)
        assert len(calls) == 1
        await store.close()
        await other.close()

    _within(scenario())


def test_a_stalled_event_loop_loses_its_session(own_etcd: Callable[..., Etcd]) -> None:
    """While the event loop does not run, no keep-alive is sent, so the session ends although etcd answers."""
    etcd = own_etcd()

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address(), session_timeout_s=2)
        lost = asyncio.Event()
        store.on_session_lost(lost.set)
        time.sleep(4)  # noqa: ASYNC251 - the loop stalls
        await lost.wait()
        await store.close()

    _within(scenario())


def test_a_full_quota_is_explained(own_etcd: Callable[..., Etcd], caplog: pytest.LogCaptureFixture) -> None:
    """When etcd has used up its quota, transactions fail with a message that says what to do. The first failure writes
    this message to the log, too."""
    etcd = own_etcd(options=["--quota-backend-bytes=4194304"])

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address())
        seen = await watched(store)

        async def fill() -> None:
            for number in range(20):
                await store.transact({}, [Change(f"k{number}", bytes(1_000_000))])

        for _ in range(2):
            with pytest.raises(MetadataStoreError, match="etcdctl alarm disarm"):
                await fill()
        assert ["etcdctl alarm disarm" in record.message for record in caplog.records].count(True) == 1
        late: list[Commit] = []
        await store.watch(late.append)
        # A transaction that etcd applied before it raised the alarm has succeeded.
        assert {key for commit in seen for key in commit.entries} == late[0].entries.keys()
        await store.close()

    _within(scenario())


def test_a_full_quota_after_a_lost_answer_is_explained(
    own_etcd: Callable[..., Etcd], caplog: pytest.LogCaptureFixture
) -> None:
    """When the answer to a transaction is lost and etcd has used up its quota since then, the log says what to do."""
    etcd = own_etcd(options=["--quota-backend-bytes=4194304"])

    async def scenario(proxy: CutProxy) -> None:
        store = await EtcdStore.open(through(proxy, etcd), session_timeout_s=60)
        await watched(store)
        other = await EtcdStore.open(etcd.address())
        seen_by_other = await watched(other)
        proxy.lose_answers()
        sent = asyncio.ensure_future(store.transact({}, [Change("b", b"1")]))
        await until(lambda: "b" in seen_by_other[-1].entries)
        await asyncio.to_thread(etcd.fill_quota)
        proxy.heal()
        with pytest.raises(OutcomeUnknown):
            await sent
        assert ["etcdctl alarm disarm" in record.message for record in caplog.records].count(True) == 1
        await store.close()
        await other.close()

    with CutProxy(etcd.members[0].port) as proxy:
        _within(scenario(proxy))


def test_an_old_etcd_is_reported(etcd: Etcd, prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    """A version of etcd whose watches can lose deletions gives a warning of one line at the start."""

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address(prefix))
        await store.close()

    with caplog.at_level(logging.WARNING):
        _within(scenario())
    if store_version_is_old(etcd):
        assert ["can lose the deletion of a key" in record.message for record in caplog.records] == [True]


def store_version_is_old(etcd: Etcd) -> bool:
    """Returns whether the program of the tests is Debian's old version."""
    from klamm.metadata.etcd.etcd_client import EtcdClient
    from klamm.metadata.etcd.etcd_warnings import is_safe

    client = EtcdClient(etcd.address())
    try:
        client.connect()
        return not is_safe(client.version)
    finally:
        client.close()


def test_an_absent_etcd_is_explained() -> None:
    """An address at which nothing listens gives an error."""

    async def scenario() -> None:
        with pytest.raises(MetadataStoreError, match=r"can't be reached: etcd at 127.0.0.1:1"):
            await EtcdStore.open(EtcdAddress.parse("etcd://127.0.0.1:1/test"), connect_timeout_s=0.5)

    _within(scenario())


def test_an_etcd_that_never_compacts_is_reported_again_and_again(
    own_etcd: Callable[..., Etcd], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A session begins with a new etcd, which is too young for a warning. Later looks warn, until etcd compacts."""
    etcd = own_etcd()
    looks: list[bool] = []
    was_never_compacted = etcd_warnings._was_never_compacted

    def look(client: EtcdClient) -> bool:
        looks.append(was_never_compacted(client))
        return looks[-1]

    monkeypatch.setattr(etcd_warnings, "_was_never_compacted", look)
    monkeypatch.setattr(etcd_warnings, "_MANY_REVISIONS", 20)
    monkeypatch.setattr(etcd_warnings, "_LOOK_AGAIN_S", 0.02)

    async def scenario() -> None:
        store = await EtcdStore.open(etcd.address())
        await until(lambda: looks.count(False) > 1)
        assert looks.count(True) == 0
        for number in range(20):
            await store.transact({}, [Change("k", b"%d" % number)])
        await until(lambda: looks.count(True) > 1)
        await asyncio.to_thread(etcd.compact)
        await until(lambda: not looks[-1])
        await store.close()

    with caplog.at_level(logging.WARNING, "klamm.metadata.etcd.etcd_warnings"):
        _within(scenario())
    warnings = [text for text in caplog.messages if "etcd has never compacted" in text]
    assert len(warnings) == looks.count(True)
    assert "--auto-compaction-mode=periodic --auto-compaction-retention=1h" in warnings[0]
