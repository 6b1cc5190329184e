"""The watch of a store in etcd: reads all keys at one revision, then follows every later revision.

It goes on at another member when a member fails, from the revision after the last one that it delivered. If etcd has
compacted that revision, the watch reads all keys again and delivers the difference as one commit, so no change is
missed, and no deletion.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Final

from klamm.metadata.etcd.etcd_client import RANGE, EtcdClient, Method
from klamm.metadata.etcd.etcd_errors import EtcdCallFailed, EtcdReplaced
from klamm.metadata.etcd.etcd_history import find_commit, latest_of
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import Commit, MetadataStoreError, Versioned
from klamm.metadata.store_identity import StoreCommit

__all__ = ["EtcdWatch", "end_of"]

_WATCH: Final = Method("/etcdserverpb.Watch/Watch", messages.WatchResponse, messages.WatchRequest)
_PAGE_KEYS: Final = 2000
_RETRY_S: Final = 0.1
_logger = logging.getLogger(__name__)

_Requests = SimpleQueue[messages.WatchRequest | None]


def end_of(prefix: bytes) -> bytes:
    """Returns the end of the range of all keys with the prefix, which ends with a slash."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


class _Refused(Exception):
    """The receiver can't understand the content: no repetition helps."""

    def __init__(self, reason: MetadataStoreError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Compacted(Exception):
    """etcd does not have the revision any more from which the watch would go on."""


class EtcdWatch:
    """A thread that watches all keys under a prefix, until `stop`.

    `deliver(revision, commit)` is called on this thread: all changes up to the revision have been delivered then. The
    commit is None if none of the changes belongs to the content: keys that begin with a dot are not delivered, except
    that `deliver` learns their revision. `fail` is called on this thread when the watch can't go on, also because
    `deliver` has raised MetadataStoreError.
    """

    def __init__(
        self,
        client: EtcdClient,
        deliver: Callable[[int, Commit | None], None],
        fail: Callable[[MetadataStoreError], None],
    ) -> None:
        self._client = client
        self._prefix: Final = client.address.key_prefix
        self._deliver = deliver
        self._fail = fail
        self._revision = 0
        """All changes up to here have been delivered."""
        self.latest: StoreCommit | None = None
        """The latest entry that was delivered."""
        self._known: dict[str, int] = {}
        """The `mod_revision` of every key that was delivered: a comparison finds deletions with it."""
        self._ends = threading.Event()
        self._requests: _Requests = SimpleQueue()
        # A daemon, so that a process whose loop died can still end.
        self._thread = threading.Thread(target=self._run, name="metadata-store-watch", daemon=True)

    def start(self) -> None:
        """Starts the thread. The first call of `deliver` has the whole content."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch. The client must be closed after it, before `join`."""
        self._ends.set()
        self._requests.put(None)

    def join(self) -> None:
        """Waits for the thread."""
        self._thread.join()

    # The thread

    def _run(self) -> None:
        must_read = True
        is_interrupted = False
        while not self._ends.is_set():
            try:
                if must_read:
                    self._read_all()
                    must_read = False
                self._check_history()
                is_interrupted = False
                self._follow()
                self._ends.wait(_RETRY_S)
            except _Compacted:
                _logger.info("etcd has compacted revision %d: the metadata is read again", self._revision)
                must_read = True
            except EtcdReplaced as error:
                self._fail(error)
                return
            except _Refused as error:
                self._fail(error.reason)
                return
            except MetadataStoreError as error:
                if self._ends.is_set():
                    return
                if isinstance(error, EtcdCallFailed) and error.is_permanent:
                    self._fail(error)
                    return
                if not is_interrupted:
                    _logger.warning("the watch of the metadata is interrupted: %s", error)
                is_interrupted = True
                self._ends.wait(_RETRY_S)
            except Exception as error:
                _logger.exception("the watch of the metadata failed")
                self._fail(MetadataStoreError(f"the watch of the metadata failed: {error!r}"))
                return

    def _check_history(self) -> None:
        """Raises EtcdReplaced if etcd has lost what was delivered: it was restored. Raises also MetadataStoreError.

        Otherwise the watch would show an older state, or nothing for long.
        """
        # A linearizable read: the client compares the revision.
        self._client.call(RANGE, messages.RangeRequest(key=self._prefix, count_only=True))
        latest = self.latest
        if latest is not None and find_commit(self._client, self._prefix, latest) != latest:
            raise EtcdReplaced(
                f"etcd had another value of {latest.key!r} at revision {latest.revision}: it was restored from a "
                "backup, and has gone on from there"
            )

    def _read_all(self) -> None:
        """Reads all keys at one revision, and delivers what differs from what was delivered before."""
        is_first = not self._revision
        found: dict[str, Versioned] = {}
        try:
            revision = self._read_pages(found)
        except EtcdCallFailed as error:
            if error.is_compacted:
                raise _Compacted from error
            raise
        known = self._known
        entries: dict[str, Versioned | None] = {
            key: entry for key, entry in found.items() if known.get(key) != entry.mod_revision
        }
        entries.update((key, None) for key in known if key not in found)
        self._known = {key: entry.mod_revision for key, entry in found.items()}
        self._revision = revision
        self._hand_over(revision, Commit(revision, entries) if entries or is_first else None)

    def _read_pages(self, found: dict[str, Versioned]) -> int:
        request = messages.RangeRequest(key=self._prefix, range_end=end_of(self._prefix), limit=_PAGE_KEYS)
        while True:
            page = self._client.call(RANGE, request)
            # All pages are of the revision of the first one.
            request.revision = request.revision or page.header.revision
            for each in page.kvs:
                key = self._key_of(each)
                if not key.startswith("."):
                    found[key] = _versioned(each)
            if not page.more:
                return request.revision
            request.key = page.kvs[-1].key + b"\0"

    def _follow(self) -> None:
        """Delivers changes until the stream ends with an error."""
        events: list[messages.Event] = []
        requests = self._requests = SimpleQueue()
        requests.put(self._request())
        if self._ends.is_set():
            return
        try:
            with self._client.stream(_WATCH, iter(requests.get, None)) as answers:
                for answer in answers:
                    if answer.canceled:
                        self._explain_end(answer)
                    events.extend(answer.events)
                    if answer.fragment:
                        continue  # other events of the same revision follow
                    if events:
                        self._take(events)
                        events = []
                    elif not answer.created:
                        # A notification of progress: all changes up to its revision have been delivered.
                        self._revision = max(self._revision, answer.header.revision)
        finally:
            requests.put(None)

    def _request(self) -> messages.WatchRequest:
        return messages.WatchRequest(
            create_request=messages.WatchCreateRequest(
                key=self._prefix,
                range_end=end_of(self._prefix),
                start_revision=self._revision + 1,
                progress_notify=True,
                fragment=True,
            )
        )

    def _explain_end(self, answer: messages.WatchResponse) -> None:
        if answer.compact_revision:
            raise _Compacted
        raise MetadataStoreError(f"etcd ended the watch: {answer.cancel_reason or 'it gave no reason'}")

    def _take(self, events: list[messages.Event]) -> None:
        """Delivers the events, grouped by revision."""
        for revision, group in _by_revision(events):
            if revision <= self._revision:
                continue
            entries: dict[str, Versioned | None] = {}
            for event in group:
                key = self._key_of(event.kv)
                if key.startswith("."):
                    continue
                if event.type == messages.Event.DELETE:
                    entries[key] = None
                    self._known.pop(key, None)
                else:
                    entries[key] = _versioned(event.kv)
                    self._known[key] = revision
            self._revision = revision
            self._hand_over(revision, Commit(revision, entries) if entries else None)

    def _hand_over(self, revision: int, commit: Commit | None) -> None:
        try:
            self._deliver(revision, commit)
        except MetadataStoreError as error:
            raise _Refused(error) from error
        if commit is not None:
            self.latest = latest_of(commit) or self.latest

    def _key_of(self, entry: messages.KeyValue) -> str:
        return entry.key[len(self._prefix) :].decode("utf-8", "surrogateescape")


def _by_revision(events: list[messages.Event]) -> Iterator[tuple[int, list[messages.Event]]]:
    groups: dict[int, list[messages.Event]] = {}
    for event in events:
        groups.setdefault(event.kv.mod_revision, []).append(event)
    yield from sorted(groups.items())


def _versioned(entry: messages.KeyValue) -> Versioned:
    return Versioned(entry.value, entry.create_revision, entry.mod_revision)
