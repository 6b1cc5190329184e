"""The table of the kinds of groups; `group_kind.py` has the contract, and tells how to add a kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.core.group.classic.callbacks import CLASSIC_TIMERS
from klamm.core.group.classic.classic_shard import ClassicShard
from klamm.core.group.classic.classic_store import ClassicStore
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.consumer.callbacks import CONSUMER_TASKS, CONSUMER_TIMERS
from klamm.core.group.consumer.consumer_shard import ConsumerShard
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.group_kind import GroupKind
from klamm.core.group.group_store import GroupStore

__all__ = ["GROUP_KINDS", "STATE_NAMES", "TYPE_NAMES", "empty_store"]

GROUP_KINDS: Final[Sequence[GroupKind]] = (
    GroupKind(store=ClassicStore, shard=ClassicShard, states=GroupState, timers=CLASSIC_TIMERS.keys(), tasks=()),
    GroupKind(
        store=ConsumerStore,
        shard=ConsumerShard,
        states=ConsumerGroupState,
        timers=CONSUMER_TIMERS.keys(),
        tasks=CONSUMER_TASKS.keys(),
    ),
)
"""All kinds, in the order in which groups are loaded and listed.

The first kind also gets the requests with the id of a group that does not exist.
"""

STATE_NAMES: Final = frozenset(state.value.lower() for kind in GROUP_KINDS for state in kind.states)
"""The state names that a filter of ListGroups may contain, in lower case, as they are compared."""
TYPE_NAMES: Final = frozenset(kind.store.group_type.value for kind in GROUP_KINDS)
"""The type names that a filter of ListGroups may contain."""


def empty_store(kinds: Sequence[GroupKind] = GROUP_KINDS) -> GroupStore:
    """Returns a store for groups of these kinds."""
    return GroupStore(kind.store() for kind in kinds)
