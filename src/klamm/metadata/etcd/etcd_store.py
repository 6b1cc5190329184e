"""The metadata store of a cluster: keys in etcd under a prefix, and a session that is a lease.

Transactions are sent once. After an unknown outcome the store changes the fence of its session, so that the transaction
can't happen any more, and waits until the watches have delivered everything before the fence (`etcd_transaction`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Self

from klamm.metadata.etcd.etcd_address import EtcdAddress
from klamm.metadata.etcd.etcd_client import CALL_TIMEOUT_S, RANGE, EtcdClient
from klamm.metadata.etcd.etcd_errors import EtcdCallFailed, EtcdReplaced, EtcdUnavailable
from klamm.metadata.etcd.etcd_history import find_commit
from klamm.metadata.etcd.etcd_prefix import refuse_inner_prefix
from klamm.metadata.etcd.etcd_session import EtcdSession
from klamm.metadata.etcd.etcd_transaction import (
    MAXIMUM_OPERATIONS,
    TRANSACT,
    TransactionOutcome,
    fence_request,
    fence_revision_of,
    outcome_of,
    transaction_request,
)
from klamm.metadata.etcd.etcd_warnings import RefusedWrites, keep_looking, warn_about
from klamm.metadata.etcd.etcd_watch import EtcdWatch
from klamm.metadata.etcd.etcd_watcher import Watcher
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStoreError, OutcomeUnknown
from klamm.metadata.store_identity import StoreCommit, StoreIdentity

__all__ = ["EtcdStore"]

_RETRY_S: Final = 0.1
_LEASE_ENDED: Final = "etcd has ended its lease"
_logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    is_over: Callable[[Watcher], bool]
    done: asyncio.Future[None]


class EtcdStore:
    """A `MetadataStore`: one broker's session with the metadata in etcd. Created and used on the event loop."""

    is_shared = True
    maximum_operations: int | None = MAXIMUM_OPERATIONS

    def __init__(self, client: EtcdClient, timeout_s: float) -> None:
        """Takes over the client. Use `open`."""
        self._client = client
        self._prefix: Final = client.address.key_prefix
        self._loop = asyncio.get_running_loop()
        self._session = EtcdSession(client, timeout_s, self.end)
        self._watchers: list[Watcher] = []
        self._waiting: list[_Waiting] = []
        self._lost: list[Callable[[], None]] = []
        self._fence_revision = 0
        self._fencing = asyncio.Lock()
        self._refused_writes = RefusedWrites()
        self._in_progress = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._over: str | None = None
        """Why the session is over."""
        self._closing: asyncio.Future[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        """The hourly look whether etcd compacts."""

    @classmethod
    async def open(
        cls, address: EtcdAddress, *, session_timeout_s: float = 9.0, connect_timeout_s: float = CALL_TIMEOUT_S
    ) -> Self:
        """Connects to etcd and begins a session. Raises MetadataStoreError.

        `session_timeout_s`: how long etcd waits for a keep-alive before it ends the session. `connect_timeout_s`: how
        long to wait for a member that has a leader.
        """
        client = EtcdClient(address)
        store = cls(client, session_timeout_s)
        try:
            await asyncio.to_thread(client.connect, connect_timeout_s)
            await asyncio.to_thread(refuse_inner_prefix, client)
            await asyncio.to_thread(warn_about, client)
            await store._session.open()
        except BaseException:
            client.close()
            raise
        store._looking = asyncio.create_task(keep_looking(client))
        return store

    @property
    def identity(self) -> StoreIdentity:
        """Identifies the store, with the revision and the latest transaction that the watches have delivered.

        Before a watch has delivered anything, the revision is that of the newest answer. Later answers don't count:
        they may be those of a store that was restored, which the watch finds out.
        """
        client, started = self._client, self._started
        revision = max((each.revision for each in started), default=client.highest_revision)
        latest = max(filter(None, (each.watch.latest for each in started)), default=None)
        return StoreIdentity(f"{client.cluster_id or 0:x}", client.address.prefix, revision, latest)

    async def find_commit(self, known: StoreCommit) -> StoreCommit | None:
        """Returns what the store had under the key of a transaction at its revision; see `etcd_history`."""
        return await asyncio.to_thread(find_commit, self._client, self._prefix, known)

    async def created(self, key: str) -> int:
        """Returns the revision at which a key was created, 0 without this key. Raises MetadataStoreError."""
        answer = await self._client.send(RANGE, messages.RangeRequest(key=self._prefix + key.encode()))
        return answer.kvs[0].create_revision if answer.kvs else 0

    @property
    def why_lost(self) -> str | None:
        """The reason for which the session ended, None before that."""
        return self._over

    def valid_until(self) -> float:
        """Implements `MetadataStore.valid_until`."""
        return self._session.valid_until if self._over is None else 0.0

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """Implements `MetadataStore.watch`."""
        self._require_open()
        watcher = Watcher(on_commit, prepare, self._loop.create_future())
        watcher.watch = EtcdWatch(
            self._client,
            lambda revision, commit: self._deliver(watcher, revision, commit),
            lambda error: self._call_soon(self.end, str(error)),
        )
        self._watchers.append(watcher)
        watcher.watch.start()
        await watcher.ready

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """Implements `MetadataStore.transact`."""
        self._require_open()
        self._in_progress += 1
        self._idle.clear()
        try:
            return await self._transact(conditions, changes)
        finally:
            self._in_progress -= 1
            if not self._in_progress:
                self._idle.set()

    async def catch_up(self) -> None:
        """Implements `MetadataStore.catch_up`.

        If a watch is behind etcd, what it lacks may be changes of other users of etcd, which it never delivers. So the
        session changes a key of its own, which does not belong to the content, and waits for that.
        """
        self._require_open()
        revision = await self._current_revision()
        if any(watcher.revision < revision for watcher in self._started):
            # The value tells this change from earlier ones (`_look_after_no_space`).
            await self.transact({}, [Change(f".reads/{self._session.lease_id:x}", b"%d" % revision, is_leased=True)])

    async def _current_revision(self) -> int:
        """Returns a revision of etcd that is not below that of any earlier transaction."""
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while True:
            try:
                answer = await self._client.send(RANGE, messages.RangeRequest(key=self._fence[0]))
            except EtcdReplaced as error:
                self.end(str(error))
                raise
            except EtcdCallFailed as error:
                if error.is_permanent or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_RETRY_S)
            else:
                return int(answer.header.revision)

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Implements `MetadataStore.on_session_lost`."""
        self._lost.append(callback)

    async def close(self) -> None:
        """Implements `MetadataStore.close`."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._idle.wait()
        self._over = self._over or "the metadata store is closed"
        if self._looking is not None:
            self._looking.cancel()
        await self._session.close()
        for watcher in self._watchers:
            watcher.watch.stop()
        self._client.close()
        for watcher in self._watchers:
            await asyncio.to_thread(watcher.watch.join)
        self._fail_waiting()

    def _require_open(self) -> None:
        if self._over is not None or self._closing is not None:
            raise MetadataStoreError(f"the session with the metadata store has ended: {self._over or 'it is closed'}")
        if not self._session.is_valid:
            raise MetadataStoreError("the session with the metadata store has expired")

    # Transactions

    async def _transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while True:
            fence = self._fence
            request = transaction_request(
                self._prefix, conditions, changes, lease_id=self._session.lease_id, fence=fence
            )
            try:
                answer = await self._client.send(TRANSACT, request)
            except EtcdUnavailable:
                raise  # it was not sent
            except EtcdReplaced as error:
                self.end(str(error))
                raise
            except EtcdCallFailed as error:
                if error.is_no_space:
                    self._refused_writes.log(error)
                    return await self._look_after_no_space(changes, error)
                if not error.is_refusal:
                    await self._forbid(fence, changes)
                    raise OutcomeUnknown(str(error)) from error
                if error.is_lease_gone:
                    self.end(str(error))
                if error.is_permanent or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_RETRY_S)  # it did not happen: another member, or another token, may help
                continue
            outcome = outcome_of(answer, conditions, fence[1])
            if outcome.found is None:
                if outcome.has_changed:
                    await self._reached(outcome.revision)
                return outcome.revision
            if not outcome.is_fenced:
                await self._explain_failure(conditions, outcome.found, outcome)
            # Another transaction had an unknown outcome, and the fence excluded this one too: it did not happen.
            self._require_open()

    @property
    def _fence(self) -> tuple[bytes, int]:
        return self._prefix + b".fences/%x" % self._session.lease_id, self._fence_revision

    async def _explain_failure(
        self, conditions: Mapping[str, int], found: Mapping[str, int], outcome: TransactionOutcome
    ) -> None:
        """Waits until the watches have delivered what the transaction found. Raises ConditionFailed."""
        await self._wait(lambda watcher: watcher.has_seen(found, outcome.revision))
        key = next(key for key, expected in conditions.items() if found[key] != expected)
        raise ConditionFailed(f"{key} is at revision {found[key]} and not at {conditions[key]}")

    async def _forbid(self, fence: tuple[bytes, int], changes: Sequence[Change]) -> None:
        """Excludes the transactions with this fence, and waits for the watches. Gives up when the session is over."""
        async with self._fencing:
            while self._fence_revision == fence[1]:
                try:
                    answer = await self._client.send(TRANSACT, fence_request(fence, self._session.lease_id))
                except (EtcdCallFailed, EtcdUnavailable) as error:
                    if isinstance(error, EtcdCallFailed) and error.is_no_space:
                        self._refused_writes.log(error)
                        # etcd refuses all writes now, those of the earlier transaction too: it happened or does not.
                        await self._read_back([change.key for change in changes])
                        return
                    self._require_session(error)
                    await asyncio.sleep(_RETRY_S)
                    continue
                except EtcdReplaced as error:
                    self.end(str(error))
                    raise OutcomeUnknown(str(error)) from error
                fence_revision = fence_revision_of(answer)
                if not fence_revision:
                    # etcd has removed the fence with the lease, so the earlier transaction can't happen any more.
                    self.end(_LEASE_ENDED)
                    raise OutcomeUnknown(f"the session with the metadata store has ended: {_LEASE_ENDED}")
                self._fence_revision = fence_revision
        await self._reached(self._fence_revision)

    def _require_session(self, error: MetadataStoreError) -> None:
        """Raises OutcomeUnknown if the session is over: no later transaction of it is accepted."""
        if isinstance(error, EtcdCallFailed) and error.is_lease_gone:
            self.end(str(error))
        if self._over is not None or not self._session.is_valid:
            raise OutcomeUnknown(f"the session with the metadata store has ended: {error}") from error

    async def _look_after_no_space(self, changes: Sequence[Change], error: EtcdCallFailed) -> int:
        """Returns the revision of a transaction that happened although etcd answered that it has no space.

        The transaction is over. It happened if all its values are there, with one revision. Raises MetadataStoreError
        otherwise.
        """
        puts = {change.key: change.value for change in changes if change.value is not None}
        found = await self._read_back(puts)
        values = {key: entry.value for key, entry in found.items()}
        revisions = {entry.mod_revision for entry in found.values()}
        if values == puts and len(revisions) == 1:
            return revisions.pop()
        raise error

    async def _read_back(self, keys: Collection[str]) -> dict[str, messages.KeyValue]:
        """Reads keys at one revision, and waits until the watches have delivered what it found.

        Tries until it succeeds. Raises OutcomeUnknown if the session ends before.
        """
        found: dict[str, messages.KeyValue] = {}
        revision = 0
        for key in keys:
            request = messages.RangeRequest(key=self._prefix + key.encode(), revision=revision)
            while True:
                try:
                    answer = await self._client.send(RANGE, request)
                    break
                except (EtcdCallFailed, EtcdUnavailable) as error:
                    self._require_session(error)
                    await asyncio.sleep(_RETRY_S)
            revision = revision or answer.header.revision
            found.update((key, entry) for entry in answer.kvs)
        modified = {key: found[key].mod_revision if key in found else 0 for key in keys}
        await self._wait(lambda watcher: watcher.has_seen(modified, revision))
        return found

    # Watches

    def _deliver(self, watcher: Watcher, revision: int, commit: Commit | None) -> None:
        """Passes a commit to the loop, on the thread of the watch."""
        if commit is not None and watcher.prepare is not None:
            watcher.prepare(commit)
        self._call_soon(self._show, watcher, revision, commit)

    def _show(self, watcher: Watcher, revision: int, commit: Commit | None) -> None:
        watcher.revision = revision
        if commit is not None:
            watcher.show(commit)
        if not watcher.ready.done():
            watcher.ready.set_result(None)
        self._release()

    def _release(self) -> None:
        """Ends the waiting of the operations whose changes all watches have delivered."""
        over = [each for each in self._waiting if all(each.is_over(watcher) for watcher in self._started)]
        for each in over:
            self._waiting.remove(each)
            if not each.done.done():
                each.done.set_result(None)

    @property
    def _started(self) -> list[Watcher]:
        return [watcher for watcher in self._watchers if watcher.ready.done()]

    async def _reached(self, revision: int) -> None:
        await self._wait(lambda watcher: watcher.revision >= revision)

    async def _wait(self, is_over: Callable[[Watcher], bool]) -> None:
        """Waits until the condition holds for all watches. Raises OutcomeUnknown if the session ends before."""
        waiting = _Waiting(is_over, self._loop.create_future())
        self._waiting.append(waiting)
        self._release()
        if self._over is not None:
            self._fail_waiting()
        await waiting.done

    # The end

    def end(self, reason: str) -> None:
        """Ends the session, on the loop. Does nothing the second time, and when the store is closed."""
        if self._over is not None:
            return
        self._over = reason
        _logger.error("the session with the metadata store at %s has ended: %s", self._client.address, reason)
        self._fail_waiting()
        if self._closing is None:
            for callback in self._lost:
                callback()

    def _fail_waiting(self) -> None:
        for watcher in self._watchers:
            if not watcher.ready.done():
                watcher.ready.set_exception(MetadataStoreError(str(self._over)))
        for waiting in self._waiting:
            if not waiting.done.done():
                waiting.done.set_exception(OutcomeUnknown(f"the session with the metadata store ended: {self._over}"))
        self._waiting.clear()

    def _call_soon(self, callback: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)
