"""Logs the events of groups as lines of the broker's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from klamm.core.group.events import (
    GroupDeleted,
    GroupIsStable,
    GroupLoaded,
    GroupType,
    MemberAssigned,
    MemberJoined,
    MemberPaused,
    MemberRemoved,
    NewEpoch,
    RebalanceNeeded,
    Remark,
    TargetChosen,
)
from klamm.protocol.types import PartitionIndex

__all__ = ["describe", "log_events"]

_logger = logging.getLogger(__name__)


def log_events(partition: PartitionIndex, events: Sequence[object]) -> None:
    """Writes a line for each event: a change of a group at level INFO, the consequences for a single member at DEBUG.

    A loaded group is logged at DEBUG too, because a broker may load very many groups.
    """
    if not _logger.isEnabledFor(logging.INFO):
        return
    for event in events:
        level = logging.DEBUG if isinstance(event, _DETAILS) else logging.INFO
        if _logger.isEnabledFor(level):
            _logger.log(level, "%s", describe(event))


def describe(event: object) -> str:
    """Returns the text of the log line for one event."""
    words = _WORDS.get(type(event))
    return str(event) if words is None else words(event)


def _epoch(event: RebalanceNeeded | NewEpoch | TargetChosen | GroupIsStable | GroupLoaded) -> str:
    return f"generation {event.epoch}" if event.group_type is GroupType.CLASSIC else f"epoch {event.epoch}"


def _new_epoch(event: NewEpoch) -> str:
    if not event.member_ids:
        return f"group {event.group_id} is empty at {_epoch(event)}"
    count = len(event.member_ids)
    return f"group {event.group_id} has {_epoch(event)} with {count} {'member' if count == 1 else 'members'}"


_DETAILS: Final = (MemberJoined, MemberPaused, MemberAssigned, GroupLoaded)

_WORDS: Final[Mapping[type, Callable[[Any], str]]] = {
    RebalanceNeeded: lambda event: f"group {event.group_id} rebalances from {_epoch(event)}: {event.detail}",
    MemberJoined: lambda event: f"group {event.group_id} has a new member {event.member_id} at {event.client_host}",
    MemberRemoved: lambda event: f"group {event.group_id} lost member {event.member_id}: {event.detail}",
    NewEpoch: _new_epoch,
    TargetChosen: lambda event: f"group {event.group_id} has its assignment for {_epoch(event)}, by {event.assignor}",
    MemberPaused: lambda event: f"group {event.group_id} has stopped member {event.member_id} until it is assigned",
    MemberAssigned: lambda event: f"group {event.group_id} has assigned to member {event.member_id}: {event.assigned}",
    GroupIsStable: lambda event: f"group {event.group_id} is stable at {_epoch(event)}",
    GroupLoaded: lambda event: f"group {event.group_id} is loaded at {_epoch(event)}",
    GroupDeleted: lambda event: f"group {event.group_id} was deleted",
    Remark: lambda event: f"group {event.group_id}: {event.text}",
}
