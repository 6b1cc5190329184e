"""The interface of a metadata store: ordered keys with revisions, changed by compare-and-set, watched in order.

It is the part of etcd's interface that the safety argument needs, so that a single node's SQLite file, the memory of a
test and a cluster's etcd can serve the same `MetadataService`.

A `MetadataStore` object is one session of one broker. A leased key belongs to the session that wrote it, and is removed
after that session has ended: this tells the other brokers that the broker is gone. No decision is proved by a lease;
transactions compare revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from klamm.errors import KlammError

__all__ = [
    "Change",
    "Commit",
    "ConditionFailed",
    "MetadataStore",
    "MetadataStoreError",
    "OutcomeUnknown",
    "Plan",
    "Planning",
    "Versioned",
]

T = TypeVar("T")


class MetadataStoreError(KlammError):
    """The store could not perform the operation: nothing was changed."""


class OutcomeUnknown(MetadataStoreError):
    """The store can't tell whether the transaction happened, for example because the connection to it was lost.

    The transaction can't happen any more once this is raised.
    """


class ConditionFailed(KlammError):
    """A key was not as the transaction required. Nothing was changed."""


class Change(NamedTuple):
    """A key's new value; None removes the key. A leased key is removed after the session that wrote it has ended."""

    key: str
    value: bytes | None
    is_leased: bool = False


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """A decision about metadata that is not written yet.

    `result` is valid once `changes` are written, in one transaction or not at all. The transaction succeeds only if
    every key in `changes` and in `reads` is still as in the image on which the plan is based.

    If the store can't hold all changes in one transaction, they are written in several, in this order. The decision
    takes effect with the transaction that changes `commit_key`: the changes before it have no effect without it, and
    the changes after it only tidy up. Without a commit key each change is valid without the others, and a decision on
    an image that has some of them leads to the same end.
    """

    result: T
    changes: Sequence[Change] = ()
    reads: Sequence[str] = ()
    commit_key: str | None = None


Planning: TypeAlias = Generator[None, None, Plan[T]]
"""Makes a plan in steps, from one image. Other tasks may run at each yield. If a key of the plan is changed meanwhile,
the plan is made again."""


class Versioned(NamedTuple):
    """A value with the revision that created its key and the one that last changed it."""

    value: bytes
    create_revision: int
    mod_revision: int


class Commit(NamedTuple):
    """One committed transaction. `entries` maps every changed key to its new entry, None if the key was removed."""

    revision: int
    entries: Mapping[str, Versioned | None]


class MetadataStore(Protocol):
    """One session with ordered keys that have revisions. All methods are called on the event loop's thread."""

    @property
    def is_shared(self) -> bool:
        """Whether other brokers may use the same content, so that a transaction's outcome may be unknown.

        A store that is not shared has one session at a time, and never raises OutcomeUnknown.
        """
        ...

    @property
    def maximum_operations(self) -> int | None:
        """The largest number of conditions, and of changes, in one transaction; None without a limit."""
        ...

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """Calls `on_commit` with the whole content as one commit, then with every later commit of any writer, once, in
        order.

        It is called on the loop's thread and must not raise. This method returns after the first call. `prepare`, for
        slow work, is called with each commit before that, in the same order and one at a time, on another thread.
        """
        ...

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """Makes all changes durable, or none of them. Returns the new revision.

        `conditions` maps keys to the `mod_revision` they must have; 0 means absent. A key may occur once in `changes`.

        Raises ConditionFailed if a condition does not hold, MetadataStoreError if the store can't write, OutcomeUnknown
        if it can't tell which. In all cases, and on success, watchers have received every commit that this call has
        seen, and its own commit if it happened, so that the caller can decide again on what it watched. If the caller
        is cancelled, the transaction may still happen; watchers are notified if it does.
        """
        ...

    async def catch_up(self) -> None:
        """Returns after the watchers have received every commit that any session had made before this call.

        Raises MetadataStoreError if the store can't tell. May wait for as long as the session lasts.
        """
        ...

    def valid_until(self) -> float:
        """Returns until when, by `session_time`, the session is certain to last; infinity without such a limit.

        Until then no other broker can have seen that its leased keys are gone. A leader acknowledges a write only
        before this time. The value rises while the session is kept alive.
        """
        ...

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, on the loop, if the session ends before `close`: other brokers may see that its leased
        keys are gone, and every later transaction of the session raises MetadataStoreError."""
        ...

    async def close(self) -> None:
        """Finishes operations in progress, ends the session, and removes its leased keys.

        The watchers of other sessions see the removal. Further calls raise MetadataStoreError.
        """
        ...
