"""Where agreed metadata lives: ordered keys with revisions, changed by compare-and-set, watched in order.

The interface is the part of etcd's that the argument for safety needs, so that a single node's SQLite file and a
cluster's etcd serve the same `MetadataService`. Leases are not in it yet: they only tell a cluster that a broker is
gone, and a store that serves one broker has nobody to tell. They come as one more field of `Change`, with the store
that can expire a key.
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
    """The store could not do what was asked: nothing was changed, or (see `transact`) nobody knows."""


class ConditionFailed(KlammError):
    """A key was not as the transaction required; nothing was changed."""


class Change(NamedTuple):
    """A key's new value; None removes it."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """A decision about metadata that is made but not written yet.

    `result` is true once `changes` are written, which must happen in one transaction or not at all. The transaction
    holds only if every key in `changes` and in `reads` is as the image showed it when the plan was made.
    """

    result: T
    changes: Sequence[Change] = ()
    reads: Sequence[str] = ()


Planning: TypeAlias = Generator[None, None, Plan[T]]
"""Makes a plan in steps: other work may run at each yield, and the image does not change meanwhile."""


class Versioned(NamedTuple):
    """A value with the revision that created its key and the one that last changed it."""

    value: bytes
    create_revision: int
    mod_revision: int


class Commit(NamedTuple):
    """One transaction as it took effect. `entries` maps every key it changed to what is there now, None for nothing."""

    revision: int
    entries: Mapping[str, Versioned | None]


class MetadataStore(Protocol):
    """Ordered keys with revisions. All methods are called on the event loop's thread."""

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """Tell `on_commit` everything there is as one commit, then every later commit, whoever made it, once, in order.

        It is called on the loop's thread and must not raise. This returns once the first call was made. `prepare` is
        told of each commit before that, in the same order and one at a time, on another thread: for what takes long.
        """
        ...

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """Make all changes durable, or none of them; answers the new revision.

        `conditions` maps keys to the `mod_revision` they must have, 0 meaning absent. A key occurs once in `changes`.

        Raises ConditionFailed when a condition does not hold, MetadataStoreError when the store can't write. In both
        cases, and on success, watchers have been told of every commit that this call has seen, so that who called can
        decide on what it watched. If the caller is cancelled the transaction may still happen, and watchers are told
        if it does.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun and let go. Further calls raise MetadataStoreError."""
        ...
