"""A metadata store that several simulated brokers share, with the faults that such a store may have.

Each process of a broker has one session. A transaction takes time on the way to the store and back; its outcome may be
unknown, whether it happened or not. A watch lags behind, and may break: then it later gets the difference between what
it delivered and the content as one commit. A session may end while its process lives, and may outlive its process.

A process that does not reach the store for a while gets no commits, and its transactions arrive late or not at all. Its
session ends after its timeout, as a lease of etcd does. The process knows some time before that it may not acknowledge
any more (`valid_until`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.metadata.metadata_store import (
    Change,
    Commit,
    ConditionFailed,
    MetadataStoreError,
    OutcomeUnknown,
    Versioned,
)

if TYPE_CHECKING:
    from tests.simulation.brokers.asyncio_loop import ProcessLoop
    from tests.simulation.loop import EventLoop

__all__ = ["Faults", "Session", "SharedMetadata"]

_LATEST_MS: Final = 60.0
"""How long a transaction of unknown outcome may be on its way."""
_VALID: Final = 7 / 8
"""The part of a session's timeout after which its process may not acknowledge any more."""
_HEARD_LATE: Final = 1 / 2
"""How late a process may notice that its session is over, as a part of the timeout."""
_GIVES_UP_MS: Final = 50.0
_HELD_UP_MS: Final = 5.0
_THREAD_MS: Final = 2.0
"""How long the threads of the store need to tell the loop of a process that has just gone on."""


class Faults:
    """How slow and unreliable the store is; the world changes it."""

    def __init__(self, *, latency_ms: float, lag_ms: float, unknown_rate: float) -> None:
        self.latency_ms = latency_ms
        """The longest way of a transaction to the store, and back."""
        self.lag_ms = lag_ms
        """How late a watch may deliver a commit."""
        self.unknown_rate = unknown_rate
        """Probability that the outcome of a transaction is unknown."""
        self.unreachable: dict[str, float] = {}
        """Until when the sessions of that name do not reach the store."""


class SharedMetadata:
    """The content of the store."""

    def __init__(
        self, events: EventLoop, faults: Faults, maximum_operations: int | None, note: Callable[..., None]
    ) -> None:
        self.events = events
        self.faults = faults
        self.maximum_operations = maximum_operations
        self.note = note
        self.revision = 0
        self.entries: dict[str, Versioned] = {}
        self.sessions: list[Session] = []
        self._leases: dict[str, Session] = {}
        self.watcher: Callable[[int, Mapping[str, Versioned | None]], None] | None = None
        """Is called with each commit."""
        self.courier: Callable[[Session, Sequence[Change]], Callable[[], bool] | None] = lambda session, changes: None
        """Is called with each transaction that is sent. It arrives once the returned function returns True;
        None: it is not held up."""

    def connect(self, loop: ProcessLoop, name: str) -> Session:
        """Returns a new session of a process."""
        session = Session(self, loop, name)
        self.sessions.append(session)
        return session

    def write(self, changes: Sequence[Change], session: Session | None = None) -> int:
        """Makes changes in one commit. Returns the new revision."""
        self.revision += 1
        made: dict[str, Versioned | None] = {}
        for key, value, is_leased in changes:
            self._leases.pop(key, None)
            if value is None:
                self.entries.pop(key, None)
                made[key] = None
                continue
            before = self.entries.get(key)
            created = self.revision if before is None else before.create_revision
            made[key] = self.entries[key] = Versioned(value, created, self.revision)
            if is_leased:
                assert session is not None
                self._leases[key] = session
        for each in self.sessions:
            each.follow(Commit(self.revision, made))
        if self.watcher is not None:
            self.watcher(self.revision, made)
        return self.revision

    def transact(self, session: Session, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """Executes a transaction now. Raises ConditionFailed, and MetadataStoreError if the session has ended."""
        if session.is_over:
            raise MetadataStoreError("the session with the metadata store has ended")
        for key, revision in conditions.items():
            entry = self.entries.get(key)
            if (0 if entry is None else entry.mod_revision) != revision:
                raise ConditionFailed(f"{key} is not at revision {revision}")
        return self.write(changes, session)

    def end(self, session: Session) -> None:
        """Ends a session: its leased keys go."""
        if session.is_over:
            return
        session.is_over = True
        gone = [Change(key, None) for key, holder in self._leases.items() if holder is session]
        if gone:
            self.note("the session of %s ends", session.name)
            self.write(gone)
        session.tell_over()
        if session.is_dead:
            self.sessions.remove(session)

    def cut_off(self, name: str, duration_ms: float, timeout_ms: float) -> None:
        """Lets a process, and the processes of that name that follow it, not reach the store for some time."""
        until_ms = self.events.now_ms + duration_ms
        if self.faults.unreachable.get(name, 0.0) >= until_ms:
            return
        self.note("%s does not reach the metadata store for %.0f ms", name, duration_ms)
        self.faults.unreachable[name] = until_ms
        for session in self.sessions:
            if session.name == name and not session.is_dead:
                session.lose_store(timeout_ms)

    def is_out_of_reach(self) -> bool:
        """Returns whether some process does not reach the store now."""
        return any(until_ms > self.events.now_ms for until_ms in self.faults.unreachable.values())

    def heal(self) -> None:
        """Lets all processes reach the store."""
        self.faults.unreachable.clear()
        for session in self.sessions:
            session.reach()


class _Watch:
    """What one watcher of a session has received."""

    def __init__(self, on_commit: Callable[[Commit], None], prepare: Callable[[Commit], None] | None) -> None:
        self.on_commit = on_commit
        self.prepare = prepare

    def deliver(self, commit: Commit) -> None:
        if self.prepare is not None:
            self.prepare(commit)
        self.on_commit(commit)


class Session:
    """A `MetadataStore`: the session of one process of a broker."""

    is_shared = True

    def __init__(self, metadata: SharedMetadata, loop: ProcessLoop, name: str) -> None:
        self.maximum_operations = metadata.maximum_operations
        self.name = name
        self.is_over = False
        """Whether the session has ended."""
        self.is_dead = False
        """Whether the process of the session has ended."""
        self.seen = 0
        """The revision up to which the watch has delivered."""
        self._metadata = metadata
        self._events = metadata.events
        self._loop = loop
        self._watch: _Watch | None = None
        self._known: dict[str, Versioned] = {}
        """The content as the watch has delivered it."""
        self._on_way_ms = 0.0
        self._is_broken = False
        self._reached: list[tuple[int, asyncio.Future[None]]] = []
        self._lost: list[Callable[[], None]] = []
        self._is_closed = False
        self._valid_until_ms = math.inf
        self._is_expired = False
        self.has_timed_out = False
        """Whether the store has ended the session because it did not hear of the process."""

    # The process's side

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """See `MetadataStore.watch`."""
        assert self._watch is None, "a broker has one watch"
        await asyncio.sleep(self._way_s())
        await self._reached_store()
        self._watch = _Watch(on_commit, prepare)
        self._catch_up()

    async def _reached_store(self) -> None:
        if (left_ms := self._out_of_reach_ms()) > 0:
            await asyncio.sleep(min(left_ms, _GIVES_UP_MS) / 1000)
            await self._reached_store()

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """See `MetadataStore.transact`."""
        limit = self.maximum_operations
        assert len({change.key for change in changes}) == len(changes), "a key occurs once in a transaction"
        assert limit is None or max(len(conditions), len(changes)) <= limit, "a transaction is too large"
        if self._is_closed or self._is_expired:
            raise MetadataStoreError("the metadata store is closed")
        if self._out_of_reach_ms() > 0 and self._events.chance(0.5):
            await asyncio.sleep(_GIVES_UP_MS / 1000)
            raise MetadataStoreError("the metadata store can't be reached")
        events = self._events
        outcome: asyncio.Future[int] = self._loop.create_future()
        is_unknown = events.chance(self._metadata.faults.unknown_rate)
        happens = not is_unknown or events.chance(0.6)
        way_ms = self._way_s() * 1000 + self._out_of_reach_ms()
        if is_unknown:
            way_ms += events.random.random() * _LATEST_MS
        # The transaction is on its way, whatever becomes of the process.
        is_due = self._metadata.courier(self, changes)

        def arrive() -> None:
            if is_due is not None and not is_due():
                events.call_later(_HELD_UP_MS, arrive)
                return
            self._arrive(dict(conditions), list(changes), outcome, happens=happens, known=not is_unknown)

        events.call_later(way_ms, arrive)
        return await outcome

    async def catch_up(self) -> None:
        """See `MetadataStore.catch_up`. The way to the store takes time only if a change has not arrived yet."""
        if self._is_closed or self._is_expired:
            raise MetadataStoreError("the metadata store is closed")
        revision = self._metadata.revision
        if self.seen >= revision:
            return
        if self._out_of_reach_ms() > 0 and self._events.chance(0.5):
            await asyncio.sleep(_GIVES_UP_MS / 1000)
            raise MetadataStoreError("the metadata store can't be reached")
        await asyncio.sleep(2 * self._way_s() + self._out_of_reach_ms() / 1000)
        if self.seen < revision:
            reached: asyncio.Future[None] = self._loop.create_future()
            self._reached.append((revision, reached))
            await asyncio.shield(reached)  # the caller may give up

    def valid_until(self) -> float:
        """See `MetadataStore.valid_until`."""
        return self._valid_until_ms / 1000

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """See `MetadataStore.on_session_lost`."""
        self._lost.append(callback)

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        self._is_closed = True
        await asyncio.sleep(self._way_s())
        self._metadata.end(self)

    # The store's side

    def _arrive(
        self,
        conditions: Mapping[str, int],
        changes: Sequence[Change],
        outcome: asyncio.Future[int],
        *,
        happens: bool,
        known: bool,
    ) -> None:
        revision, error = self._metadata.revision, None
        if happens:
            try:
                revision = self._metadata.transact(self, conditions, changes)
            except (ConditionFailed, MetadataStoreError) as failed:
                error = failed
        if not known:
            keys = ", ".join(change.key for change in changes)
            self._metadata.note(
                "%s does not learn whether it has written %s: %s", self.name, keys, happens and not error
            )
            error = OutcomeUnknown("the connection to the metadata store broke")
        revision = self._metadata.revision
        self._loop.call_later(self._way_s(), self._answer, outcome, revision, error)

    def _answer(self, outcome: asyncio.Future[int], revision: int, error: Exception | None) -> None:
        """Answers when the watch has delivered everything that the transaction has seen."""
        if self.seen < revision:
            reached: asyncio.Future[None] = self._loop.create_future()
            self._reached.append((revision, reached))
            reached.add_done_callback(lambda _: self._answer(outcome, revision, error))
            return
        if outcome.done():
            return  # The caller was cancelled.
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(revision)

    def follow(self, commit: Commit) -> None:
        """Sends a commit to the watch."""
        if self._watch is None or self._is_broken or self.is_dead:
            return
        lag_ms = self._events.random.random() * self._metadata.faults.lag_ms
        self._on_way_ms = max(self._on_way_ms, self._events.now_ms + lag_ms)
        self._loop.call_at(self._on_way_ms / 1000, self._deliver, commit)

    def _deliver(self, commit: Commit) -> None:
        if self._waits_for_thread(self._deliver, commit):
            return
        if commit.revision <= self.seen or self._is_broken:
            return  # The watch was broken in between, and what is delivered now has the commit.
        self._pass_on(commit)

    def _pass_on(self, commit: Commit) -> None:
        assert self._watch is not None
        for key, entry in commit.entries.items():
            if entry is None:
                self._known.pop(key, None)
            else:
                self._known[key] = entry
        self.seen = commit.revision
        self._watch.deliver(commit)
        due, self._reached = self._reached, []
        for revision, reached in due:
            if revision <= self.seen:
                reached.set_result(None)
            else:
                self._reached.append((revision, reached))

    def break_watch(self, duration_ms: float) -> None:
        """Breaks the watch for some time. What is on its way is lost; then the content is listed again."""
        if self._watch is not None and not self._is_broken and not self.is_dead:
            self._metadata.note("the watch of %s breaks for %.0f ms", self.name, duration_ms)
            self._is_broken = True
            self._loop.call_later(duration_ms / 1000, self._catch_up)

    def _catch_up(self) -> None:
        """Delivers the content as one commit: only what is different from what was delivered."""
        if self.seen and self._waits_for_thread(self._catch_up):
            return
        if (left_ms := self._out_of_reach_ms()) > 0:
            self._loop.call_later(min(left_ms, _GIVES_UP_MS) / 1000, self._catch_up)
            return
        self._is_broken = False
        entries, known = self._metadata.entries, self._known
        different: dict[str, Versioned | None] = {key: None for key in known if key not in entries}
        different |= {key: entry for key, entry in entries.items() if known.get(key) != entry}
        if self._metadata.revision > self.seen or not self.seen:
            self._pass_on(Commit(self._metadata.revision, different))

    def _waits_for_thread(self, callback: Callable[..., None], *arguments: Any) -> bool:
        """Returns whether the process has just gone on after a pause, and calls back a little later then.

        The threads of the store tell the event loop, which reads its own sockets at the same time.
        """
        if self._events.now_ms >= self._loop.went_on_ms + _THREAD_MS / 2:
            return False  # Seconds and milliseconds differ by roundings, so this is no comparison with the whole time.
        self._loop.call_at((self._loop.went_on_ms + _THREAD_MS) / 1000, callback, *arguments)
        return True

    def tell_over(self) -> None:
        """Tells the process that the session has ended before `close`."""
        if not self._is_closed and not self.is_dead and not self._is_expired:
            for callback in self._lost:
                self._loop.call_later(self._out_of_reach_ms() / 1000 + self._way_s(), callback)

    def _out_of_reach_ms(self) -> float:
        """Returns for how long the process does not reach the store; 0 if it does."""
        return max(0.0, self._metadata.faults.unreachable.get(self.name, 0.0) - self._events.now_ms)

    def lose_store(self, timeout_ms: float) -> None:
        """Lets the session end after `timeout_ms`, unless the process reaches the store before."""
        if self._watch is not None and not self._is_broken:
            self._is_broken = True
            self._loop.call_later(_GIVES_UP_MS / 1000, self._catch_up)
        if self._valid_until_ms < math.inf or self.is_over:
            return
        self._valid_until_ms = valid_until_ms = self._events.now_ms + timeout_ms * _VALID
        late_ms = self._events.random.random() * timeout_ms * _HEARD_LATE
        self._loop.call_later((timeout_ms * _VALID + late_ms) / 1000, self._expire, valid_until_ms)
        self._events.call_later(timeout_ms, lambda: self._time_out(valid_until_ms))
        self._events.call_later(self._out_of_reach_ms(), self.reach)

    def reach(self) -> None:
        """Sends a keep-alive, if the process reaches the store."""
        if self._out_of_reach_ms() == 0.0 and self._events.now_ms < self._valid_until_ms:
            self._valid_until_ms = math.inf

    def _time_out(self, valid_until_ms: float) -> None:
        if self._valid_until_ms == valid_until_ms and not self.is_over:
            self.has_timed_out = True
            self._metadata.end(self)

    def _expire(self, valid_until_ms: float) -> None:
        """Tells the process, by its own clock, that it may not acknowledge any more."""
        if self._waits_for_thread(self._expire, valid_until_ms):
            return
        if self._valid_until_ms == valid_until_ms and not self._is_expired and not self._is_closed:
            self._is_expired = True
            for callback in self._lost:
                callback()

    def die(self, lease_ms: float) -> None:
        """Ends the process of the session. The session ends after `lease_ms`."""
        self.is_dead = True
        if self.is_over:
            self._metadata.sessions.remove(self)
        else:
            self._events.call_later(lease_ms, lambda: self._metadata.end(self))

    def _way_s(self) -> float:
        return self._events.random.random() * self._metadata.faults.latency_ms / 1000
