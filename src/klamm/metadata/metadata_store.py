"""The interface of a metadata store: ordered keys with revisions, changed by compare-and-set, watched in order.

It is the part of etcd's interface that the safety argument needs, so that a single node's SQLite file and a cluster's
etcd can serve the same `MetadataService`. Leases are not included yet: they tell a cluster that a broker is gone, which
a store with one broker does not need. They will be one more field of `Change`, with a store that can expire keys.
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
    "Plan",
    "Planning",
    "Versioned",
]

T = TypeVar("T")


class MetadataStoreError(KlammError):
    """The store could not perform the operation: nothing was changed, or (see `transact`) the outcome is unknown."""


class ConditionFailed(KlammError):
    """A key was not as the transaction required. Nothing was changed."""


class Change(NamedTuple):
    """A key's new value; None removes the key."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """A decision about metadata that is not written yet.

    `result` is valid once `changes` are written, in one transaction or not at all. The transaction succeeds only if
    every key in `changes` and in `reads` is still as in the image on which the plan is based.
    """

    result: T
    changes: Sequence[Change] = ()
    reads: Sequence[str] = ()


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
    """Ordered keys with revisions. All methods are called on the event loop's thread."""

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

        Raises ConditionFailed if a condition does not hold, MetadataStoreError if the store can't write. In both cases,
        and on success, watchers have received every commit that this call has seen, so that the caller can decide again
        on what it watched. If the caller is cancelled, the transaction may still happen; watchers are notified if it
        does.
        """
        ...

    async def close(self) -> None:
        """Finishes operations in progress and closes the store. Further calls raise MetadataStoreError."""
        ...
